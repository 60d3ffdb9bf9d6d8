// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"

	"lamplighter.dev/internal/testkit"
)

func TestRevertRestartsOnlyWhatWasUpgraded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := w.start(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{"agent.yaml": daemonSet(version, "slow-1s"), "rules.yaml": rules{maxUnavailable: "2"}.yaml(w)})
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	w.commit(t, "version 2", files("2"))
	testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, 4) })
	agent.stop(t) // half-way, however slow the machine

	upgraded := slices.Sorted(maps.Keys(w.countByNode(t)))
	if len(upgraded) == nodes {
		t.Fatalf("all nodes were upgraded before the agent stopped")
	}
	w.repo.Revert(t, "main")
	w.start(t)
	w.settled(t, "1")
	counts := w.countByNode(t)
	if got := slices.Sorted(maps.Keys(counts)); !slices.Equal(got, upgraded) {
		t.Errorf("the revert restarted %v, want only what was upgraded, %v", got, upgraded)
	}
	for node, n := range counts {
		if n != 2 {
			t.Errorf("%s: its pod was deleted %d times, not once there and once back", node, n)
		}
	}
	w.withinBudget(t, 2)

	h := w.history(t)
	if len(h.Revisions) != 2 || !h.Revisions[0].Current || h.Revisions[0].Outcome != "settled" || h.Revisions[1].Outcome != "reverted" {
		t.Errorf("history: %+v, want the revision in force settled, and the one before it reverted", h.Revisions)
	}
}
