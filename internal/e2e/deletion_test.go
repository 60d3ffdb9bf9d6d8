// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

// Whoever deletes a DaemonSet from Git mostly deletes its policy and windows
// too. Its pods end all the same in a window only: the last one it had.
func TestDeletedDaemonSetWaitsForItsLastWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	without := w.fleet(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	with := func(open span) map[string]string {
		return w.fleet(map[string]string{
			"a.yaml": without["a.yaml"], "b.yaml": without["b.yaml"], "agent.yaml": daemonSet("1", "v1"),
			"rules.yaml": rules{windows: "night", more: open.window("night")}.yaml(w),
		})
	}
	shut := far()
	w.commit(t, "version 1", with(shut))
	w.settled(t, "1")
	before := text(t, w.rested(t))

	w.inForce(t, w.commit(t, "the agent and its rules go", without))
	note := w.noteOn(t, w.in("DaemonSet", "agent"), inventory.Reason(rollout.WindowShut))
	if note.Action != string(inventory.Hold) || !note.Until.Equal(shut.from) {
		t.Errorf("note: got %+v, want a hold until %s", note, shut.from)
	}
	w.polled(t, 2)
	if got := text(t, w.daemonSetNow(t, "agent")); got != before {
		t.Errorf("the DaemonSet changed while its window was shut:\n%s\nbefore:\n%s", got, before)
	}

	open := span{second(8 * time.Second), second(time.Hour)}
	w.inForce(t, w.commit(t, "they are back, and open tonight", with(open)))
	w.inForce(t, w.commit(t, "they go again", without))
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		_, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(ctx, "agent", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return w.deleted(t, nodes)
		}
		return errors.Join(err, errors.New("the DaemonSet is still there"))
	})
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted outside %s: %v", open, early)
	}
	w.owns(t, w.in("ConfigMap", "a"), w.in("ConfigMap", "b"))
}
