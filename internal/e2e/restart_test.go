// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// restartedAt is the annotation by which kubectl rollout restart makes a template
// another one.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// kubectl rollout restart of a DaemonSet of ours is a new revision: its nodes are
// visited for that, once each, when a window opens, and what kubectl has set stays.
func TestRestartByKubectlIsVisitedInTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: far().window("night")}.yaml(w),
	}))
	w.settled(t, "1")
	before := w.rested(t)

	patch := `{"spec":{"template":{"metadata":{"annotations":{"` + restartedAt + `":"2026-03-02T22:00:00Z"}}}}}`
	_, err := w.Client.AppsV1().DaemonSets(w.namespace).Patch(t.Context(), "agent", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-rollout"})
	if err != nil {
		t.Fatal(err)
	}
	w.polled(t, 2)
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted though the window is shut: %v", given)
	}

	open := span{second(4 * time.Second), second(time.Hour)}
	w.commit(t, "open tonight", map[string]string{
		"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: open.window("night")}.yaml(w),
	})
	w.settledOn(t, restartedAt, "2026-03-02T22:00:00Z")
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted outside %s: %v", open, early)
	}
	w.onceEach(t)
	w.withinBudget(t, 6)
	now := w.daemonSetNow(t, "agent")
	if got := now.Spec.Template.Annotations[restartedAt]; got != "2026-03-02T22:00:00Z" {
		t.Errorf("%s is %q, want it as kubectl has set it", restartedAt, got)
	}
	if now.Generation != before.Generation+1 {
		t.Errorf("generation %d after %d: somebody else changed the DaemonSet too", now.Generation, before.Generation)
	}
}
