// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"
	"time"

	"lamplighter.dev/inventory"
)

func TestFightIsGivenUpForLongerEachTime(t *testing.T) {
	f, now := fights{}, shut
	c := created(configMap("contested"))
	c.Kind, c.Drifted = inventory.Update, true
	var waits []time.Duration
	for len(waits) < 4 {
		if retry, waiting := f.due([]inventory.Change{c}, now)[c.ID]; waiting {
			if retry.Reason != inventory.Fighting || !strings.Contains(retry.Message, `"hpa"`) {
				t.Fatalf("reason %s, message %q: want a fight that names the other manager", retry.Reason, retry.Message)
			}
			waits = append(waits, retry.At.Sub(now))
			now = retry.At
			continue
		}
		f.note(correcting(c), succeeded(c.ID), now)
		now = now.Add(time.Second)
	}
	want := []time.Duration{fightSpan, 2 * fightSpan, 4 * fightSpan, lastRetry}
	for i := range want {
		if got := (waits[i] + time.Second).Round(time.Minute); got != want[i] {
			t.Errorf("wait %d: %s, want %s", i+1, got, want[i])
		}
	}
}

func TestRareCorrectionsAreNoFight(t *testing.T) {
	f, now := fights{}, shut
	c := created(configMap("touched"))
	c.Kind, c.Drifted = inventory.Update, true
	for range 50 {
		f.note(correcting(c), succeeded(c.ID), now)
		now = now.Add(fightSpan / maxCorrections)
		if waiting := f.due([]inventory.Change{c}, now); len(waiting) != 0 {
			t.Fatalf("at %s it is left alone: %v", now, waiting)
		}
	}
	f.note(inventory.Plan{}, nil, now.Add(2*fightOver))
	if len(f) != 0 {
		t.Errorf("still remembered long after: %v", f)
	}
}

// An object whose end takes long is created in a later pass, as if it were new.
func TestDeletionThatIsNotDoneCountsAsACorrection(t *testing.T) {
	f, now := fights{}, shut
	c := created(configMap("contested"))
	c.Kind = inventory.Replace
	plan := inventory.Plan{Steps: [][]inventory.Decision{{{ID: c.ID, Action: inventory.Recreate, Object: c.Object}}}}
	for range maxCorrections + 1 {
		f.note(plan, []inventory.Outcome{{ID: c.ID, Result: inventory.ResultDeleting, Err: errDead}}, now)
		now = now.Add(time.Second)
	}
	if len(f.due([]inventory.Change{c}, now)) == 0 {
		t.Error("it would be deleted again and again")
	}
}

func correcting(c inventory.Change) inventory.Plan {
	return inventory.Plan{Steps: [][]inventory.Decision{{{
		ID: c.ID, Action: inventory.Apply, Reason: inventory.Drifted, Drifted: true, Message: `changed by "hpa"`, Object: c.Object,
	}}}}
}

func succeeded(id inventory.ID) []inventory.Outcome {
	return []inventory.Outcome{{ID: id, Result: inventory.ResultConfigured}}
}
