// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/testkit"
)

// formerTool is how a tool that managed the objects before has written them.
type formerTool struct {
	manager     string
	apply       bool // by server-side apply
	labels      map[string]string
	annotations map[string]string
	noFlag      bool // its fields are taken over without --take-over-from
}

var formerTools = map[string]formerTool{
	"Flux": {manager: "kustomize-controller", apply: true, labels: map[string]string{
		"kustomize.toolkit.fluxcd.io/name": "agents", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
	}, annotations: map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"}},
	"Argo CD": {manager: "argocd-controller", labels: map[string]string{"app.kubernetes.io/instance": "agents"},
		annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
	"Argo CD with ServerSideApply": {manager: "argocd-controller", apply: true, annotations: map[string]string{
		"argocd.argoproj.io/tracking-id": "agents:apps/DaemonSet:ns/agent", "argocd.argoproj.io/sync-options": "Prune=false",
	}},
	"Helm": {manager: "helm", labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		annotations: map[string]string{"meta.helm.sh/release-name": "agents"}},
	"kubectl": {manager: "kubectl-client-side-apply", noFlag: true, annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
}

// The guide's commands, on objects as each tool has left them. No pod is restarted,
// the tool's marks and what it had and Git has not are gone, nobody else manages a
// field, and what leaves Git later is pruned.
func TestObjectsOfAFormerToolAreTakenOver(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tool := range formerTools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rolling := strings.Replace(daemonSet("1", "v1"), "type: OnDelete", "type: RollingUpdate", 1)
			written := map[string]string{"agent": rolling, "a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: \"1\", dropped: by git}\n", "b": configMap("b", "1"), "c": configMap("c", "1")}
			for _, text := range written {
				w.writeAs(t, tool, text)
			}
			w.rested(t)
			before := w.podUIDs(t)

			dir := t.TempDir()
			w.writeFleet(t, dir, map[string]string{
				"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
				"rules.yaml": rules{windows: "night", more: far().window("night")}.yaml(w),
			})
			flag := " --take-over-from " + tool.manager
			if tool.noFlag {
				flag = ""
			} else if says := "take over from `" + tool.manager + "`"; name == "Helm" && !strings.Contains(strings.ReplaceAll(string(guide), "\n", " "), says) {
				t.Errorf("the guide does not say %q", says)
			}
			for _, command := range []string{"lamplighter diff . --path clusters/prod", "lamplighter apply . --path clusters/prod"} {
				if line := command + flag; name != "Helm" && !strings.Contains(string(guide), line+"\n") {
					t.Errorf("the guide has no line %q", line)
				}
			}
			if out, code := w.runIn(t, dir, "diff . --path clusters/prod"+flag); code != 1 || strings.Contains(out, "Conflict") || strings.Contains(out, "restarts") {
				t.Errorf("diff: exit code %d, want 1, no conflict and no restart:\n%s", code, out)
			}
			if out, code := w.runIn(t, dir, "apply . --path clusters/prod --yes"+flag); code != 0 {
				t.Fatalf("apply: exit code %d:\n%s", code, out)
			}
			w.wantTakenOver(t, tool)
			if after := w.podUIDs(t); !slices.Equal(before, after) {
				t.Errorf("pods were restarted: %v, before %v", after, before)
			}
			if out, code := w.runIn(t, dir, "diff . --path clusters/prod"+flag); code != 0 {
				t.Errorf("diff afterwards: exit code %d:\n%s", code, out)
			}

			w.writeFleet(t, dir, map[string]string{
				"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"),
				"rules.yaml": rules{windows: "night", more: far().window("night")}.yaml(w),
			})
			if out, code := w.runIn(t, dir, "apply . --path clusters/prod --yes"); code != 0 {
				t.Fatalf("apply of less: exit code %d:\n%s", code, out)
			}
			if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("ConfigMap c, which has left Git: %v", err)
			}
		})
	}
}

// writeAs writes an object as a tool does.
func (w *world) writeAs(t *testing.T, tool formerTool, text string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(w.namespace)
	obj.SetLabels(tool.labels)
	obj.SetAnnotations(tool.annotations)
	resource := w.Dynamic.Resource(resourceOf(obj)).Namespace(w.namespace)
	var err error
	if tool.apply {
		_, err = resource.Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: tool.manager, Force: true})
	} else {
		_, err = resource.Create(t.Context(), obj, metav1.CreateOptions{FieldManager: tool.manager})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func resourceOf(obj *unstructured.Unstructured) schema.GroupVersionResource {
	return obj.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(obj.GetKind()) + "s")
}

// wantTakenOver looks at the objects as they are in the end.
func (w *world) wantTakenOver(t *testing.T, tool formerTool) {
	t.Helper()
	daemonSets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for name, resource := range map[string]schema.GroupVersionResource{"agent": daemonSets, "a": configMaps, "b": configMaps, "c": configMaps} {
		o, err := w.Dynamic.Resource(resource).Namespace(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key := range tool.labels {
			if _, left := o.GetLabels()[key]; left {
				t.Errorf("%s still carries the label %s", name, key)
			}
		}
		for key := range tool.annotations {
			if _, left := o.GetAnnotations()[key]; left {
				t.Errorf("%s still carries the annotation %s", name, key)
			}
		}
		w.wantOursAlone(t, o)
	}
	if data := w.configMap(t, "a").Data; len(data) != 1 || data["key"] != "1" {
		t.Errorf("ConfigMap a: %v, want what Git says alone", data)
	}
	if d := w.daemonSetNow(t, "agent"); d.Spec.UpdateStrategy.Type != "OnDelete" {
		t.Errorf("the DaemonSet has the strategy %s", d.Spec.UpdateStrategy.Type)
	}
}

func (w *world) podUIDs(t *testing.T) []types.UID {
	t.Helper()
	var uids []types.UID
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=agent"})
		if err != nil {
			return err
		}
		uids = nil
		for _, p := range pods.Items {
			uids = append(uids, p.UID)
		}
		if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return !isReady(p) }) || len(uids) != nodes {
			return fmt.Errorf("of %d pods not all are ready", len(uids))
		}
		slices.Sort(uids)
		return nil
	})
	return uids
}

// writeFleet writes the files to clusters/prod of a working tree.
func (w *world) writeFleet(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	root := filepath.Join(dir, "clusters", "prod")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range w.fleet(files) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runIn runs a command line of the binary in a folder.
func (w *world) runIn(t *testing.T, dir, line string) (string, int) {
	t.Helper()
	cmd := w.command(t, strings.Fields(line)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
