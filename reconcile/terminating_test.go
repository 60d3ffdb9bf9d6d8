// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"
	"time"

	"lamplighter.dev/inventory"
)

// A pass waits for no deletion for long, and the next one looks whether it is
// done: the kind may have no watch any more that would tell.
func TestDeletionThatIsNotDoneIsLookedAtSoon(t *testing.T) {
	w := lingering{&world{objects: map[string]string{}}}
	stays := map[string]string{"a": "1", "b": "1"}
	w.settle(t, map[string]string{"a": "1", "b": "1", "old": "1"})
	r := NewReconciler(Options{Instance: us, Cluster: w, Store: w, Now: func() time.Time { return shut }})
	report, err := r.Pass(t.Context(), source(stays))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Outcomes) == 0 || report.After.Inventory.Len() != 3 {
		t.Fatalf("outcomes %v, and %d objects are owned: want an entry that stays", report.Outcomes, report.After.Inventory.Len())
	}
	if got := report.Next.Sub(shut); report.Next.IsZero() || got > lookAgain {
		t.Errorf("next look at %s, want it within %s", report.Next, lookAgain)
	}
}

// lingering is a world in which nothing is gone as soon as it is deleted.
type lingering struct{ *world }

func (l lingering) Prune(_ context.Context, steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) []inventory.Outcome {
	return l.each(steps, review, inventory.Prune, func(inventory.Decision) inventory.Result { return inventory.ResultDeleting })
}
