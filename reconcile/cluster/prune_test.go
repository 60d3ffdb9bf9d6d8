// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

func TestPruneDeletesWhatGitDrops(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a, b, c := w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.configMap(t, "c", "1")
	w.pass(t, a, b, c)
	_, outcomes := w.pass(t, a, b)
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Unchanged ConfigMap/b", "Pruned ConfigMap/c")
	if got, want := w.owned, inventory.NewSet(inventory.IDOf(a), inventory.IDOf(b)); !got.Equal(want) {
		t.Errorf("inventory: got %v, want %v", got.IDs(), want.IDs())
	}
	w.wantGone(t, "c")
}

func TestFinalizerKeepsTheEntryAndIsNamed(t *testing.T) {
	w := newWorld(t, cluster.Options{DeletionTimeout: 100 * time.Millisecond})
	stays := w.objects(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, finalizers: [example.com/stay]}")[0]
	a, b := w.configMap(t, "a", "1"), w.configMap(t, "b", "1")
	w.pass(t, a, b, stays)
	_, outcomes := w.pass(t, a, b)
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Unchanged ConfigMap/b", "Deleting ConfigMap/stays: waits for finalizer example.com/stay")
	if !w.owned.Contains(inventory.IDOf(stays)) {
		t.Error("the entry left before the object did")
	}
	w.edit(t, "stays", "test", `{"metadata":{"finalizers":null}}`)
	testkit.Eventually(t, patience, func(context.Context) error {
		if w.pass(t, a, b); w.owned.Contains(inventory.IDOf(stays)) {
			return errors.New("still in the inventory")
		}
		return nil
	})
}

func TestObjectMadeAnewIsNotDeleted(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a, b, c := w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.configMap(t, "c", "1")
	w.pass(t, a, b, c)
	plan := w.plan(t, a, b)
	configs := w.Client.CoreV1().ConfigMaps(w.namespace)
	old, err := configs.Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := configs.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	old.ResourceVersion, old.UID = "", ""
	if _, err := configs.Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantOutcomes(t, w.cluster.Prune(t.Context(), plan.Prunes, nil), "Failed ConfigMap/c: it was created anew")
	if got := w.value(t, "c"); got != "1" {
		t.Errorf("value: got %q, want 1", got)
	}
}

func TestObjectThatChangedHandsIsReleased(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a, b, c := w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.configMap(t, "c", "1")
	w.pass(t, a, b, c)
	plan := w.plan(t, a, b)
	w.edit(t, "c", "other", `{"metadata":{"annotations":{"config.k8s.io/owning-inventory":"somebody-else"}}}`)
	w.wantOutcomes(t, w.cluster.Prune(t.Context(), plan.Prunes, nil), "Released ConfigMap/c")
	if got := w.value(t, "c"); got != "1" {
		t.Errorf("value: got %q, want 1", got)
	}
}

func TestDetachedObjectStaysWithoutOurMarks(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a, b, c := w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.configMap(t, "c", "1")
	c.SetAnnotations(map[string]string{inventory.DeletionAnnotation: "detach"})
	w.pass(t, a, b, c)
	_, outcomes := w.pass(t, a, b)
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Unchanged ConfigMap/b", "Released ConfigMap/c")
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Annotations[inventory.OwnerAnnotation] != "" || cm.Labels[inventory.InstanceLabel] != "" {
		t.Errorf("marks: got %v %v, want none", cm.Annotations, cm.Labels)
	}
	if w.owned.Contains(inventory.IDOf(c)) {
		t.Error("the entry is still there")
	}
}

func TestNamespaceWithForeignObjectsStays(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.allow = true
	inner := w.objects(t, `
apiVersion: v1
kind: Namespace
metadata: {name: NS-inner}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ours, namespace: NS-inner}`)
	w.pass(t, inner...)
	t.Cleanup(func() {
		err := w.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), inner[0].GetName(), metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	theirs := w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: theirs, namespace: NS-inner}")[0]
	secrets := w.Dynamic.Resource(configMaps.GroupVersion().WithResource("secrets")).Namespace(inner[0].GetName())
	if _, err := secrets.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plan, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.wantOutcomes(t, outcomes, "Created ConfigMap/a", "Pruned ConfigMap/"+inner[0].GetName()+"/ours", "Held Namespace/"+inner[0].GetName())
	held := plan.Prunes[len(plan.Prunes)-1][0]
	if held.Reason != inventory.NamespaceNotEmpty || !strings.Contains(held.Message, "Secret/"+inner[0].GetName()+"/theirs") {
		t.Errorf("got %s %q, want the Secret named", held.Reason, held.Message)
	}
}

// Between the plan and the deletion lie all applies of a pass.
func TestNamespaceThatIsUsedMeanwhileStays(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.allow = true
	inner := w.objects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-used}")[0]
	w.pass(t, inner)
	t.Cleanup(func() {
		err := w.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), inner.GetName(), metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	plan := w.plan(t, w.configMap(t, "a", "1"))
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	if _, err := w.Client.CoreV1().ConfigMaps(inner.GetName()).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantOutcomes(t, w.cluster.Prune(t.Context(), plan.Prunes, nil), "Failed Namespace/"+inner.GetName()+": holds ConfigMap/NS-used/theirs")
}

func (w *world) wantGone(t *testing.T, name string) {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap %s: got %v, want it gone", name, err)
	}
}

// wantTerminating waits until the plan says that the object is on its way out.
func (w *world) wantTerminating(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	changed := obj.DeepCopy()
	changed.SetLabels(map[string]string{"changed": "yes"})
	testkit.Eventually(t, patience, func(context.Context) error {
		d := w.plan(t, changed).Decisions()[0]
		if d.Reason != inventory.Terminating {
			return errors.New("got " + string(d.Reason))
		}
		return nil
	})
}

func (w *world) dropFinalizers(t *testing.T, namespace string) {
	t.Helper()
	_, err := w.Client.CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
