// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
)

// One visit is for both DaemonSets of the policy, one after the other. The window
// shuts while the first settles, so that the second waits for the next opening.
func TestVisitGoesOnInTheNextWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	place := w.crowd(t, smallFleet, 0)
	w.start(t)
	policy := rules{windows: "early, late", maxUnavailable: "100%", logger: true, more: far().window("early") + far().window("late")}
	files := func(version, tag string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml":  daemonSet(version, tag) + place,
			"logger.yaml": logger(version, "v1") + place,
			"rules.yaml":  policy.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1", "v1"))
	w.runsOn(t, smallFleet, "1", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)

	// Whatever is evicted in the first opening settles after its end.
	early := span{second(3 * time.Second), second(23 * time.Second)}
	late := span{second(30 * time.Second), second(time.Hour)}
	policy.more = early.window("early") + late.window("late")
	w.commit(t, "version 2", files("2", "slow-21s"))
	w.runsOn(t, smallFleet, "2", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)

	w.onceOn(t, smallFleet, "agent", "logger")
	given := w.orders(t)
	if wrong := outside(given, early, late); len(wrong) > 0 {
		t.Errorf("pods were deleted outside %s and %s: %v", early, late, wrong)
	}
	split := 0
	ready := w.readySince(t, "agent", "2")
	for _, o := range given {
		switch {
		case o.daemonSet == "agent" && early.has(o.at):
			split++
		case o.daemonSet == "logger" && early.has(o.at):
			t.Errorf("the second DaemonSet of %s was visited in the first opening", o)
		case o.daemonSet == "logger" && o.at.Before(ready[o.node]):
			t.Errorf("the second DaemonSet of %s was visited before the first was ready at %s", o, ready[o.node].Format(time.TimeOnly))
		}
	}
	if split == 0 {
		t.Errorf("no visit was begun in the first opening: %v", given)
	}
	for _, v := range w.finished(t) {
		if len(v.Steps) != 2 || v.Steps[1].Evicted.Before(v.Steps[0].Settled) {
			t.Errorf("visit of %s: got %+v, want one step after the other", v.Node, v.Steps)
		}
	}
	if n := len(w.finished(t)); n != smallFleet {
		t.Errorf("%d visits are on record, want one for each of %d nodes", n, smallFleet)
	}
}

// readySince is since when each node has a Ready pod of a version, to the second.
func (w *world) readySince(t *testing.T, daemonSet, version string) map[string]time.Time {
	t.Helper()
	since, known := map[string]time.Time{}, map[types.UID]bool{}
	for _, e := range w.pods.Events(t) {
		p := e.Pod
		if known[p.UID] || p.Labels["app"] != daemonSet || p.Annotations[versionKey] != version || !isReady(*p) {
			continue
		}
		known[p.UID] = true
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" {
				since[p.Spec.NodeName] = c.LastTransitionTime.Time
			}
		}
	}
	return since
}
