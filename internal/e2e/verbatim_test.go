// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// tricky are texts that a reader of YAML may take for something else.
var tricky = []string{"on", "off", "yes", "0777", "1e3", "1e003", "706798e8", "20230921.12345678", "12:30", "2026-01-01", "null", "~", "", "9007199254740993", "0x10", " x ", "a\r\nb\r\n"}

// What a file says is what the object says in the end, through generators,
// replacements, patches, anchors and prefixes.
func TestValuesReachTheClusterAsTheFileHasThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env, want := "", map[string]string{}
	for i, text := range tricky {
		name := fmt.Sprintf("V%d", i)
		env += fmt.Sprintf("        - {name: %s, value: %q}\n", name, text)
		want[name] = text
	}
	group := w.namespace + ".example.com"
	lamps := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "lamps"}
	t.Cleanup(func() { // a definition is in no namespace that goes with the test
		crds := lamps.GroupVersion().WithResource("customresourcedefinitions")
		crds.Group = "apiextensions.k8s.io"
		err := w.Dynamic.Resource(crds).Delete(context.WithoutCancel(t.Context()), "lamps."+group, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	files := map[string]string{
		"agent.yaml": strings.Replace(daemonSet("1", "v0"), "{name: agent}", "{name: agent, labels: {build: none}}", 1) + "        env:\n" + env,
		"crd.yaml": fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: lamps.%s}\nspec:\n  group: %s\n  scope: Namespaced\n"+
			"  names: {kind: Lamp, plural: lamps, singular: lamp}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n", group, group),
		"lamp.yaml": fmt.Sprintf("apiVersion: %s/v1\nkind: Lamp\nmetadata: {name: lamp}\nspec:\n  base: &base {watts: 60, name: \"on\"}\n  copy: *base\n  merged: {<<: *base, watts: 40}\n"+
			"  numbers: [0777, 1e3, 1.5, -3, 9007199254740993]\n  empty: {}\n  none: []\n", group),
		"rules.yaml":   rules{}.yaml(w),
		"build.env":    "BUILD=20230921.12345678\nSWITCH=on\nEMPTY=\n",
		"windows.conf": "[a]\r\nx=1\r\n",
		"patch.yaml":   "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec: {template: {metadata: {annotations: {patched: \"0777\"}}}}\n",
	}
	files["kustomization.yaml"] = w.kustomization([]string{"agent.yaml", "crd.yaml", "lamp.yaml", "rules.yaml"}, `patches: [{path: patch.yaml}]
images: [{name: example.com/agent, newTag: v1}]
configMapGenerator:
- {name: build, envs: [build.env], files: [windows.conf], options: {disableNameSuffixHash: true}}
replacements:
- source: {kind: ConfigMap, name: build, fieldPath: data.BUILD}
  targets: [{select: {kind: DaemonSet}, fieldPaths: [metadata.labels.build]}]
`)
	w.start(t)
	w.inForce(t, w.commit(t, "tricky values", files))
	w.settled(t, "1")

	d := w.daemonSetNow(t, "agent")
	got := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		got[e.Name] = e.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-file +live):\n%s", diff)
	}
	if d.Labels["build"] != "20230921.12345678" || d.Spec.Template.Annotations["patched"] != "0777" || d.Spec.Template.Spec.Containers[0].Image != "example.com/agent:v1" {
		t.Errorf("the DaemonSet has labels %v, annotations %v and the image %s", d.Labels, d.Spec.Template.Annotations, d.Spec.Template.Spec.Containers[0].Image)
	}
	cm := w.configMap(t, "build")
	if diff := cmp.Diff(map[string]string{"BUILD": "20230921.12345678", "SWITCH": "on", "EMPTY": "", "windows.conf": "[a]\r\nx=1\r\n"}, cm.Data); diff != "" {
		t.Errorf("ConfigMap build (-file +live):\n%s", diff)
	}
	var lamp *unstructured.Unstructured
	testkit.Eventually(t, patience, func(ctx context.Context) (err error) { // its kind may be younger than the pods
		lamp, err = w.Dynamic.Resource(lamps).Namespace(w.namespace).Get(ctx, "lamp", metav1.GetOptions{})
		return err
	})
	base := map[string]any{"watts": int64(60), "name": "on"}
	spec := map[string]any{
		"base": base, "copy": base, "merged": map[string]any{"watts": int64(40), "name": "on"},
		"numbers": []any{int64(511), int64(1000), 1.5, int64(-3), int64(9007199254740993)}, "empty": map[string]any{}, "none": []any{},
	}
	if diff := cmp.Diff(spec, lamp.Object["spec"]); diff != "" {
		t.Errorf("custom object (-file +live):\n%s", diff)
	}
	for _, o := range []metav1.Object{d, cm, lamp} {
		w.wantOursAlone(t, o)
	}
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted: %v", given)
	}
}

// wantOursAlone says who else manages fields of an object, a status apart.
func (w *world) wantOursAlone(t *testing.T, o metav1.Object) {
	t.Helper()
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "" && (e.Manager != inventory.FieldManager || e.Operation != metav1.ManagedFieldsOperationApply) {
			t.Errorf("%s: %s (%s) manages %s", o.GetName(), e.Manager, e.Operation, e.FieldsV1)
		}
	}
}
