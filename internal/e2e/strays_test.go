// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// An inventory is lost while Git drops most of what it held. None of that is
// deleted, all of it is told of, be it the last object of its kind, and to each
// new agent again, until somebody has seen to it.
func TestWhatALostInventoryHeldIsToldAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	night := rules{windows: "night", more: far().window("night")}.yaml(w)
	kept := map[string]string{"a.yaml": configMap("a", "1")}
	all := map[string]string{
		"a.yaml": kept["a.yaml"], "rules.yaml": night, "b.yaml": configMap("b", "1"), "agent.yaml": daemonSet("1", "v1"),
		"secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {key: canary}\n",
	}
	w.commit(t, "all of it", w.fleet(all))
	first := w.start(t)
	w.settled(t, "1")
	first.stop(t)
	dropped := []stray{w.stray("ConfigMap", "configmaps", "b"), w.stray("Secret", "secrets", "token"), w.stray("DaemonSet", "apps/daemonsets", "agent")}
	stays := w.stray("ConfigMap", "configmaps", "a")
	before := map[string]string{stays.object: text(t, stays.live(t))}
	w.rested(t)
	for _, d := range dropped {
		before[d.object] = text(t, d.live(t))
	}

	w.loseInventory(t)
	w.commit(t, "most of it goes", w.fleet(kept))
	for range 2 { // the second agent finds an inventory that has never had them
		second := w.start(t)
		for _, d := range dropped {
			note := w.noteOn(t, d.object, inventory.Untracked)
			if note.Action != string(inventory.Hold) || !note.Orphan {
				t.Errorf("note: got %+v, want a hold of an orphan", note)
			}
		}
		w.polled(t, 2)
		for _, s := range append(dropped, stays) {
			if got := text(t, s.live(t)); got != before[s.object] {
				t.Errorf("%s has changed:\n%s\nbefore:\n%s", s.object, got, before[s.object])
			}
		}
		w.owns(t, stays.object)
		second.stop(t)
	}
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted: %v", given)
	}

	// One is deleted by hand, one is let go, and one is taken back into Git and dropped again.
	w.start(t)
	if err := w.Client.CoreV1().Secrets(w.namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.edit(t, "b", `{"metadata":{"labels":{"lamplighter.dev/instance":null}}}`)
	w.noNoteOn(t, dropped[0].object, dropped[1].object)
	open := rules{windows: "always"}.yaml(w)
	w.inForce(t, w.commit(t, "the agent is back", w.fleet(map[string]string{"a.yaml": kept["a.yaml"], "agent.yaml": all["agent.yaml"], "rules.yaml": open})))
	w.owns(t, stays.object, dropped[2].object)
	w.noNoteOn(t, dropped[2].object)
	w.inForce(t, w.commit(t, "and goes", w.fleet(kept)))
	w.owns(t, stays.object)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		_, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(ctx, "agent", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the DaemonSet is still there: %v", err)
		}
		return nil
	})
}

// A copy of an object with our marks on it, as kubectl get -o yaml makes one, is not
// ours to delete, nor is a namespace in which it is.
func TestCopyOfOurObjectIsToldAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.namespace + "-more"
	files := func(resources string) map[string]string {
		return map[string]string{
			"kustomization.yaml": "resources: [" + resources + "]\n", "namespace.yaml": fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", other),
			"ours/kustomization.yaml": w.kustomization([]string{"a.yaml", "b.yaml"}, ""), "ours/a.yaml": configMap("a", "1"), "ours/b.yaml": configMap("b", "1"),
		}
	}
	t.Cleanup(func() {
		err := w.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), other, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	w.start(t)
	w.inForce(t, w.commit(t, "with a namespace", files("ours, namespace.yaml")))
	w.says(t, "a", "1")
	copied := w.configMap(t, "a").DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Name: "copy", Namespace: other, Labels: copied.Labels, Annotations: copied.Annotations}
	testkit.Eventually(t, patience, func(ctx context.Context) error { // the namespace may be on its way
		_, err := w.Client.CoreV1().ConfigMaps(other).Create(ctx, copied, metav1.CreateOptions{})
		return err
	})
	w.noteOn(t, "ConfigMap/"+other+"/copy", inventory.Untracked)
	w.inForce(t, w.commit(t, "without it", files("ours")))
	note := w.noteOn(t, "Namespace/"+other, inventory.NamespaceNotEmpty)
	if !strings.Contains(note.Message, "copy") {
		t.Errorf("note: got %+v, want it to name the copy", note)
	}
	if err := w.Client.CoreV1().ConfigMaps(other).Delete(t.Context(), "copy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.noNoteOn(t, "ConfigMap/"+other+"/copy")
}

// stray is an object that may be one.
type stray struct {
	w        *world
	object   string // as notes name it
	resource schema.GroupVersionResource
	name     string
}

func (w *world) stray(kind, resource, name string) stray {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if group, r, found := strings.Cut(resource, "/"); found {
		gvr.Group, gvr.Resource = group, r
	}
	return stray{w, w.in(kind, name), gvr, name}
}

func (s stray) live(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := s.w.Dynamic.Resource(s.resource).Namespace(s.w.namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (w *world) loseInventory(t *testing.T) {
	t.Helper()
	err := w.Client.CoreV1().ConfigMaps(w.instance.Namespace).Delete(t.Context(), w.instance.Name+"-inventory", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// noNoteOn waits until the record holds none on any of the objects.
func (w *world) noNoteOn(t *testing.T, objects ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		for _, n := range state.Record.Objects {
			if slices.Contains(objects, n.Object) {
				return fmt.Errorf("there is a note: %+v", n)
			}
		}
		return nil
	})
}
