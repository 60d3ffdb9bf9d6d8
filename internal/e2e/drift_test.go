// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// With --drift=report nothing that somebody does is undone, not by an agent that
// starts later either, until a commit changes the object.
func TestDriftIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := func(c *agent.Config) { c.Drift = inventory.ReportDrift }
	first := w.start(t, report)
	w.inForce(t, w.commit(t, "first", w.fleet(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})))
	for _, name := range []string{"a", "b", "c"} {
		w.says(t, name, "1")
	}

	w.edit(t, "a", `{"data":{"key":"edited"}}`)
	note := w.noteOn(t, w.in("ConfigMap", "a"), inventory.Drifted)
	if note.Manager != "kubectl-edit" || !cmp.Equal(note.Fields, []string{".data.key"}) {
		t.Errorf("note: got %q and %v, want who changed what", note.Manager, note.Fields)
	}
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.noteOn(t, w.in("ConfigMap", "b"), inventory.Drifted)
	w.toldOf(t, "a", "DriftDetected", `changed by "kubectl-edit": .data.key`)

	first.stop(t)
	w.start(t, report)
	w.inForce(t, w.commit(t, "other", map[string]string{"c.yaml": configMap("c", "2")}))
	w.says(t, "c", "2")
	w.noteOn(t, w.in("ConfigMap", "a"), inventory.Drifted)
	w.says(t, "a", "edited")

	w.inForce(t, w.commit(t, "theirs", map[string]string{"a.yaml": configMap("a", "3"), "b.yaml": configMap("b", "3")}))
	w.says(t, "a", "3")
	w.says(t, "b", "3")
}

// What an agent has reported as deleted, the next one does not take for new.
func TestDeletionIsReportedByTheNextAgentToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := func(c *agent.Config) { c.Drift = inventory.ReportDrift }
	first := w.start(t, report)
	w.inForce(t, w.commit(t, "first", w.fleet(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})))
	w.says(t, "a", "1")
	w.says(t, "b", "1")
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.noteOn(t, w.in("ConfigMap", "a"), inventory.Drifted)

	first.stop(t)
	w.start(t, report)
	w.edit(t, "b", `{"data":{"key":"edited"}}`)
	w.noteOn(t, w.in("ConfigMap", "b"), inventory.Drifted)
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted ConfigMap: %v, want that it does not exist", err)
	}
}

// Somebody who undoes every correction is named, and the object is left alone for
// a while.
func TestFightIsGivenUpAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.inForce(t, w.commit(t, "first", w.fleet(map[string]string{"a.yaml": configMap("a", "1")})))
	const edits = 7 // six are undone, one more than is no fight
	for range edits {
		w.says(t, "a", "1")
		w.edit(t, "a", `{"data":{"key":"edited"}}`)
	}
	note := w.noteOn(t, w.in("ConfigMap", "a"), inventory.Fighting)
	if note.Manager != "kubectl-edit" || !cmp.Equal(note.Fields, []string{".data.key"}) || note.Until.IsZero() {
		t.Errorf("note: got %q, %v, until %s; want who fights for what, and when it is tried again", note.Manager, note.Fields, note.Until)
	}
	w.says(t, "a", "edited")
	w.toldOf(t, "a", "DriftFought", note.Message)
}

// toldOf waits for an Event of a ConfigMap, and for no other of the same reason.
func (w *world) toldOf(t *testing.T, name, reason, note string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		list, err := w.Client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=ConfigMap,regarding.name=" + name})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == reason {
				notes = append(notes, e.Note)
			}
		}
		if !cmp.Equal(notes, []string{note}) {
			return fmt.Errorf("events %s: got %q, want %q", reason, notes, note)
		}
		return nil
	})
}
