// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// TestUninstallGuide runs each command of docs/guides/uninstall.md on the example
// fleet's DaemonSet in a namespace of its own, and looks at what is left.
func TestUninstallGuide(t *testing.T) {
	t.Parallel()
	cluster := testkit.Sandbox(t)
	ran := 0
	for _, line := range shellLines(t, "docs/guides/uninstall.md") {
		if !strings.HasPrefix(line, "lamplighter ") {
			continue
		}
		ran++
		t.Run(line, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			dir := t.TempDir()
			write(t, dir, strings.ReplaceAll(uninstalled, "NS", namespace))
			sh := func(command string) (string, int) {
				cmd := exec.CommandContext(t.Context(), "bash", "-c", command+" --namespace "+namespace)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
				out, err := cmd.CombinedOutput()
				return string(out), exitCode(t, err)
			}
			if out, code := sh("lamplighter apply --yes"); code != 0 {
				t.Fatal(out)
			}
			asked := !strings.Contains(line, "--yes")
			want := 0
			if asked {
				want = 2 // there is no terminal
			}
			if out, code := sh(line); code != want {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
			d, err := cluster.Client.AppsV1().DaemonSets(namespace).Get(t.Context(), "exporter", metav1.GetOptions{})
			_, inventoryErr := cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "lamplighter-inventory", metav1.GetOptions{})
			switch gone := apierrors.IsNotFound(inventoryErr); {
			case asked:
				if err != nil || d.Labels[inventory.InstanceLabel] == "" || gone {
					t.Errorf("DaemonSet: %v %v, inventory gone: %t, want all as it was", err, d.Labels, gone)
				}
			case strings.Contains(line, "--orphan"):
				if err != nil || d.Labels[inventory.InstanceLabel] != "" || !gone {
					t.Errorf("DaemonSet: %v %v, inventory gone: %t, want it without our marks", err, d.Labels, gone)
				}
			case !apierrors.IsNotFound(err) || !gone:
				t.Errorf("DaemonSet: %v, inventory gone: %t, want nothing to be left", err, gone)
			}
			if _, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
				t.Errorf("the instance's namespace: %v", err)
			}
		})
	}
	if ran < 4 {
		t.Errorf("found only %d commands: does the search still work?", ran)
	}
}

// An uninstall that is killed half-way has forgotten nothing that is still there, and
// the next one goes on where it ended, once the Lease of the dead process is over.
func TestUninstallThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	cluster := testkit.Sandbox(t)
	namespace, dir := cluster.Namespace(t), t.TempDir()
	write(t, dir, strings.ReplaceAll(strings.Replace(uninstalled, "name: settings, namespace: NS", "name: settings, namespace: NS, finalizers: [example.com/stay]", 1), "NS", namespace))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "lamplighter", append(args, "--namespace", namespace)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
		return cmd
	}
	if out, err := command("apply", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	configMaps := cluster.Client.CoreV1().ConfigMaps(namespace)
	killed := command("uninstall", "--yes")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		cm, err := configMaps.Get(ctx, "settings", metav1.GetOptions{})
		if err == nil && cm.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted yet")
		}
		return err
	})
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Wait(); exitCode(t, err) != -1 {
		t.Fatalf("it ended before it was killed: %v", err)
	}
	inventoried, err := configMaps.Get(t.Context(), "lamplighter-inventory", metav1.GetOptions{})
	if err != nil || len(inventoried.Data) == 0 {
		t.Fatalf("inventory: %v, %v; want what is still there", inventoried.Data, err)
	}

	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := configMaps.Patch(t.Context(), "settings", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 2*time.Minute, func(context.Context) error {
		if out, err := command("uninstall", "--yes").CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	for _, name := range []string{"settings", "lamplighter-inventory", "lamplighter-ledger"} {
		if _, err := configMaps.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("ConfigMap %s: %v, want it to be gone", name, err)
		}
	}
}

// What the inventory has lost is not deleted, but neither is it forgotten: the
// uninstall names it and does not call the instance gone, until somebody deletes it
// or lets go of it.
func TestUninstallAfterALostInventoryForgetsNothing(t *testing.T) {
	t.Parallel()
	cluster := testkit.Sandbox(t)
	namespace, dir := cluster.Namespace(t), t.TempDir()
	write(t, dir, strings.ReplaceAll(uninstalled, "NS", namespace))
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "lamplighter", append(args, "--namespace", namespace)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
		out, err := cmd.CombinedOutput()
		return string(out), exitCode(t, err)
	}
	if out, code := run("apply", "--yes"); code != 0 {
		t.Fatal(out)
	}
	configMaps := cluster.Client.CoreV1().ConfigMaps(namespace)
	lost := []string{"lamplighter-inventory", "lamplighter-ledger"}
	for _, name := range lost {
		if err := configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		out, code := run("uninstall", "--yes")
		for _, object := range []string{"ConfigMap/" + namespace + "/settings", "DaemonSet/" + namespace + "/exporter"} {
			if !strings.Contains(out, object+" held: Untracked") {
				t.Errorf("without %s: got exit code %d, want 1 and %s to be named:\n%s", name, code, object, out)
			}
		}
		if code != 1 || strings.Contains(out, "is gone") || strings.Contains(out, "WARNING") {
			t.Errorf("without %s: exit code %d:\n%s", name, code, out)
		}
	}
	if _, err := configMaps.Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if out, code := run("uninstall", "--orphan", "--yes"); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	settings, err := configMaps.Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil || settings.Labels[inventory.InstanceLabel] != "" {
		t.Errorf("ConfigMap settings: %v, labels %v; want it without our marks", err, settings.Labels)
	}
}

const uninstalled = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: exporter, namespace: NS}
spec:
  selector: {matchLabels: {app: exporter}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: exporter}}
    spec:
      containers: [{name: exporter, image: "registry.example.com/exporter:1", envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: NS}
---
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: now}
spec: {start: 2026-01-01T00:00:00Z, end: 2099-01-01T00:00:00Z}
---
apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: exporters}
spec:
  daemonSets: [{namespace: NS, name: exporter}]
  windows: [now]
`

// write makes a fleet of one file.
func write(t *testing.T, dir, manifests string) {
	t.Helper()
	for name, text := range map[string]string{"kustomization.yaml": "resources: [fleet.yaml]\n", "fleet.yaml": manifests} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
