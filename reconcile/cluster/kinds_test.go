// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (w *world) lamps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.group(), Version: "v1", Resource: "lamps"}
}

// lamp is an object of the kind that definition defines.
func (w *world) lamp(t *testing.T, name, color string) *unstructured.Unstructured {
	t.Helper()
	return w.objects(t, fmt.Sprintf("apiVersion: %s/v1\nkind: Lamp\nmetadata: {name: %s}\nspec: {color: %s}", w.group(), name, color))[0]
}

// dye edits a lamp as somebody with kubectl does.
func (w *world) dye(t *testing.T, name, color string) {
	t.Helper()
	_, err := w.Dynamic.Resource(w.lamps()).Namespace(w.namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"color":"`+color+`"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) color(ctx context.Context, name string) (string, error) {
	obj, err := w.Dynamic.Resource(w.lamps()).Namespace(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	color, _, err := unstructured.NestedString(obj.Object, "spec", "color")
	return color, err
}

// watching counts the watches of a resource that have been begun.
func watching(seen []string, resource string) int {
	n := 0
	for _, line := range seen {
		if strings.HasPrefix(line, "GET watch ") && strings.HasSuffix(line, "/"+resource) {
			n++
		}
	}
	return n
}

// settlesOn waits until passes leave a lamp as Git has it.
func (w *world) settlesOn(t *testing.T, color string, objects ...*unstructured.Unstructured) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		w.pass(t, objects...)
		got, err := w.color(ctx, "a")
		if err == nil && got != color {
			err = fmt.Errorf("the lamp is %s, not %s", got, color)
		}
		return err
	})
}

// Somebody deletes a definition, and all objects of its kind go with it. Both
// come back, and the kind is watched as before.
func TestKindThatWentAndCameBackIsWatched(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := append(w.objects(t, definition(w)), w.lamp(t, "a", "red"))
	w.pass(t, objects...)
	w.wantQuiet(t, objects...)

	name := objects[0].GetName()
	if err := w.Dynamic.Resource(definitions).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		_, err := w.Dynamic.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.New("the definition is still there")
		}
		return nil
	})
	w.settlesOn(t, "red", objects...)
	w.wantQuiet(t, objects...)

	w.dye(t, "a", "blue")
	w.settlesOn(t, "red", objects...)
}

// Nobody else defines the kind: it is not asked for again and again meanwhile.
func TestKindThatWentIsNotAskedFor(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	defined := w.objects(t, definition(w))[0]
	if _, err := w.Dynamic.Resource(definitions).Create(t.Context(), defined, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lamp := w.lamp(t, "a", "red")
	w.settlesOn(t, "red", lamp)
	w.wantQuiet(t, lamp)

	if err := w.Dynamic.Resource(definitions).Delete(t.Context(), defined.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func(context.Context) error {
		d := w.plan(t, lamp).Decisions()[0]
		if d.Action != inventory.Hold || !strings.Contains(d.Message, "its CustomResourceDefinition is missing") {
			return fmt.Errorf("got %s %s %q", d.Action, d.Reason, d.Message)
		}
		return nil
	})
	if _, err := w.Dynamic.Resource(definitions).Create(t.Context(), defined, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.settlesOn(t, "red", lamp)
	w.dye(t, "a", "blue")
	w.settlesOn(t, "red", lamp)
}

func TestKindNoLongerOwnedIsNotWatched(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.allow = true
	account := w.objects(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}")[0]
	before := w.requests.during(func() {
		w.pass(t, account, w.configMap(t, "a", "1"))
		w.wantQuiet(t, account, w.configMap(t, "a", "1"))
	})
	if got := watching(before, "serviceaccounts"); got != 1 {
		t.Fatalf("watches of accounts begun: got %d, want 1", got)
	}
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Pruned ServiceAccount/a")
	w.pass(t, w.configMap(t, "a", "1"))
	testkit.Eventually(t, patience, func(context.Context) error {
		if open := w.requests.openWatches("serviceaccounts"); open > 0 {
			return fmt.Errorf("%d watches of accounts are open", open)
		}
		return nil
	})
	if open := w.requests.openWatches("configmaps"); open != 1 {
		t.Errorf("watches of what is still owned: got %d, want 1", open)
	}

	after := w.requests.during(func() {
		w.pass(t, account, w.configMap(t, "a", "1"))
		w.wantQuiet(t, account, w.configMap(t, "a", "1"))
	})
	if got := watching(after, "serviceaccounts"); got != 1 {
		t.Errorf("when it came back: got %d watches of accounts, want 1", got)
	}
}

// What a custom kind drops, keeps or defaults is no drift, for a process that has
// not applied it either.
func TestValuesThatACustomKindReadsItsOwnWayAreNoDrift(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	defined := w.objects(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.`+w.group()+`}
spec:
  group: `+w.group()+`
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp, listKind: LampList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, default: yellow}
              shade: {type: string, nullable: true}
              glass: {type: object, x-kubernetes-preserve-unknown-fields: true}
              hours: {type: object, properties: {from: {type: integer, default: 18}}}
status: {storedVersions: [v1]}`)[0]
	lamp := w.objects(t, `
apiVersion: `+w.group()+`/v1
kind: Lamp
metadata: {name: a}
spec: {color: null, shade: null, glass: {}, hours: {}}
status: {lit: true}`)[0]
	w.pass(t, defined, lamp)
	w.wantQuiet(t, defined, lamp)
	w.cluster = w.newCluster(t, cluster.Options{})
	for _, d := range w.plan(t, defined, lamp).Decisions() {
		if d.Action != inventory.Keep {
			t.Errorf("%s: got %s %s %q, want Keep", inventory.Format(d.ID), d.Action, d.Reason, d.Message)
		}
	}
}
