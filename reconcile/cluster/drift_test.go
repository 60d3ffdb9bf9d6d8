// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// wantDrift waits until a pass corrects the object because it drifted.
func (w *world) wantDrift(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		plan, outcomes := w.pass(t, obj)
		if d := plan.Decisions()[0]; d.Reason != inventory.Drifted {
			return fmt.Errorf("got %s %s", d.Action, d.Reason)
		}
		w.wantOutcomes(t, outcomes, "Configured "+inventory.Format(inventory.ID{GroupKind: obj.GroupVersionKind().GroupKind(), Name: obj.GetName()}))
		return nil
	})
}

// passWhenNoticed runs a pass each time something is noticed, and never
// otherwise, until one decides so of the object. A notice may be of something
// else: of our own write, or of what the other tests do to pods and nodes.
func (w *world) passWhenNoticed(t *testing.T, obj *unstructured.Unstructured, want inventory.Reason) (inventory.Decision, []inventory.Outcome) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case <-w.cluster.Changed():
		case <-late:
			t.Fatalf("nothing was noticed that leads to %s", want)
		}
		plan, outcomes := w.pass(t, obj)
		if d := plan.Decisions()[0]; d.Reason == want {
			return d, outcomes
		}
	}
}

func TestEditIsNoticedAndUndone(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.watched(t, outcomes)

	w.edit(t, "a", "kubectl-edit", `{"data":{"key":"2"}}`)
	d, outcomes := w.passWhenNoticed(t, w.configMap(t, "a", "1"), inventory.Drifted)
	if d.Message != `changed by "kubectl-edit": .data.key` {
		t.Errorf("got %q, want by whom it was changed", d.Message)
	}
	w.wantOutcomes(t, outcomes, "Configured ConfigMap/a")
	if got := w.value(t, "a"); got != "1" {
		t.Errorf("value: got %q, want 1", got)
	}
}

func TestEditOfWhatGitDoesNotSayIsRememberedAsHarmless(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.watched(t, outcomes)
	w.edit(t, "a", "other-operator", `{"data":{"theirs":"2"}}`)
	testkit.Eventually(t, patience, func(context.Context) error {
		seen := w.requests.during(func() { w.pass(t, w.configMap(t, "a", "1")) })
		if !slices.ContainsFunc(seen, func(line string) bool { return strings.HasPrefix(line, "PATCH dry-run ") }) {
			return errors.New("the edit was not looked at")
		}
		return nil
	})
	w.wantQuiet(t, w.configMap(t, "a", "1"))
	if plan := w.plan(t, w.configMap(t, "a", "1")); plan.Decisions()[0].Action != inventory.Keep {
		t.Errorf("got %s, want Keep", plan.Decisions()[0].Action)
	}
}

func TestDeletedObjectIsCreatedAgain(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.watched(t, outcomes)
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, outcomes = w.passWhenNoticed(t, w.configMap(t, "a", "1"), inventory.Created)
	w.wantOutcomes(t, outcomes, "Created ConfigMap/a")
}

// An object that was deleted between the plan and the apply is not created by
// an update: for a DaemonSet, that might be outside of its window.
func TestUpdateDoesNotCreate(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.watched(t, outcomes)
	plan := w.plan(t, w.configMap(t, "a", "2"))
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantOutcomes(t, w.cluster.Apply(t.Context(), plan.Steps, nil), "Failed ConfigMap/a")
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err == nil {
		t.Error("the update created the object")
	}
}

func TestStatusIsNoDrift(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, manyKinds)
	w.pass(t, objects...)
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		ds, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(ctx, "agent", metav1.GetOptions{})
		if err == nil && ds.Status.NumberReady == 0 {
			err = errors.New("no pod is ready")
		}
		return err
	})
	w.wantQuiet(t, objects...)
	if seen := w.requests.during(func() { w.pass(t, objects...) }); len(seen) > 0 {
		t.Errorf("a pass after status changes asked: %v", seen)
	}
}

// wantQuiet waits until passes ask nothing any more.
func (w *world) wantQuiet(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		if seen := w.requests.during(func() { w.pass(t, objects...) }); len(seen) > 0 {
			return fmt.Errorf("a pass asked: %v", seen)
		}
		return nil
	})
}
