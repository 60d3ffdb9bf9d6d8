// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// kpt takes an inventory over, and shows the status of what is in it. No package
// has kpt, so without it the test says that it tests nothing.
func TestInventoryIsReadByKpt(t *testing.T) {
	if _, err := exec.LookPath("kpt"); err != nil {
		fmt.Fprintln(os.Stderr, "NOT TESTED that kpt reads an inventory: kpt is not installed")
		return
	}
	s, _, instance := fixture(t)
	kit := testkit.Sandbox(t)
	want := map[string]bool{}
	var ids []inventory.ID
	for i := range 3 {
		name := fmt.Sprintf("object-%d", i)
		_, err := kit.Client.CoreV1().ConfigMaps(instance.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want[name] = true
		ids = append(ids, inventory.ID{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: instance.Namespace, Name: name})
	}
	save(t, s, inventory.NewSet(ids...))

	dir := t.TempDir()
	for name, text := range map[string]string{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: fleet}\n",
		"inventory-template.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: lamplighter-inventory\n  namespace: %s\n  labels: {%s: %s}\n",
			instance.Namespace, inventory.InventoryLabel, instance.ID()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kpt := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var stderr strings.Builder
		cmd := exec.CommandContext(ctx, "kpt", args...)
		cmd.Dir, cmd.Stderr = dir, &stderr
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kit.Kubeconfig, "HOME="+dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kpt %v: %v\n%s%s", args, err, out, &stderr)
		}
		return string(out)
	}
	kpt("live", "migrate", ".")
	got := map[string]bool{}
	for line := range strings.Lines(kpt("live", "status", "--output", "json", ".")) {
		var event struct{ Kind, Namespace, Name, Status string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if event.Kind == "ConfigMap" && event.Namespace == instance.Namespace && event.Status == "Current" {
			got[event.Name] = true
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("kpt live status shows %v, want %v", got, want)
	}
}

// cli-utils writes what came of an object beside its key.
func TestInventoryThatCliUtilsWroteIsRead(t *testing.T) {
	s, _, instance := fixture(t)
	save(t, s, many(0, 2))
	key := many(1, 2).IDs()[0].String()
	added := many(2, 3).IDs()[0].String()
	patch := fmt.Sprintf(`{"data":{%q:"{\"actuation\":\"Succeeded\",\"reconcile\":\"Pending\",\"strategy\":\"Apply\"}",%q:""}}`, key, added)
	configMaps := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace)
	if _, err := configMaps.Patch(t.Context(), "lamplighter-inventory", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wantOwned(t, instance, many(0, 3))
}
