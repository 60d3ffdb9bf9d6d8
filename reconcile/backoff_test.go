// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"testing"
	"time"

	"lamplighter.dev/inventory"
)

func TestFailingObjectIsTriedLessAndLessOften(t *testing.T) {
	b, now := backoff{}, shut
	c := created(configMap("bad"))
	var waits []time.Duration
	for range 9 {
		b.note(applying(c), failed(c.ID), now)
		at := b.due([]inventory.Change{c}, now)[c.ID].At
		waits = append(waits, at.Sub(now))
		now = at
	}
	for i, w := range waits {
		want := min(firstRetry<<i, lastRetry)
		if w != want {
			t.Errorf("try %d: waits %s, want %s", i+1, w, want)
		}
	}
	if due := b.due([]inventory.Change{c}, now); len(due) != 0 {
		t.Errorf("still waiting at the end of the wait: %v", due)
	}
}

func TestChangedObjectIsTriedAtOnce(t *testing.T) {
	b := backoff{}
	c := created(configMap("bad"))
	b.note(applying(c), failed(c.ID), shut)
	c.Object = c.Object.DeepCopy()
	c.Object.Object["data"] = map[string]any{"mended": "yes"}
	if due := b.due([]inventory.Change{c}, shut); len(due) != 0 {
		t.Errorf("waiting with new content: %v", due)
	}
}

func TestSuccessEndsTheWait(t *testing.T) {
	b := backoff{}
	c := created(configMap("bad"))
	b.note(applying(c), failed(c.ID), shut)
	b.note(applying(c), []inventory.Outcome{{ID: c.ID, Result: inventory.ResultCreated}}, shut)
	if next := b.next(shut); !next.IsZero() {
		t.Errorf("a try is due at %s", next)
	}
}

func TestWaitThatTheAPIServerAsksForIsKept(t *testing.T) {
	b := backoff{}
	c := created(configMap("bad"))
	for _, tt := range []struct{ asked, want time.Duration }{{90 * time.Second, 90 * time.Second}, {time.Second, 2 * firstRetry}} {
		outcomes := failed(c.ID)
		outcomes[0].RetryAfter = tt.asked
		b.note(applying(c), outcomes, shut)
		if at := b.due([]inventory.Change{c}, shut)[c.ID].At; at.Sub(shut) != tt.want {
			t.Errorf("asked for %s: tried again after %s, want %s", tt.asked, at.Sub(shut), tt.want)
		}
	}
}

func applying(c inventory.Change) inventory.Plan {
	return inventory.Plan{Steps: [][]inventory.Decision{{{ID: c.ID, Action: inventory.Apply, Object: c.Object}}}}
}

func failed(id inventory.ID) []inventory.Outcome {
	return []inventory.Outcome{{ID: id, Result: inventory.ResultFailed, Err: errors.New("no")}}
}

func TestObjectThatIsNoLongerTriedIsForgotten(t *testing.T) {
	b := backoff{}
	left, bad := created(configMap("left")), created(configMap("bad"))
	b.note(applying(left), failed(left.ID), shut)
	later := shut.Add(lastRetry)
	b.note(applying(bad), failed(bad.ID), later) // by now Git has let go of the other
	if got, want := b.next(later), later.Add(firstRetry); !got.Equal(want) {
		t.Errorf("the next try is at %s, want %s: what is gone from Git is not tried", got, want)
	}
}

func TestObjectThatIsHeldDoesNotHideTheNextTry(t *testing.T) {
	b := backoff{}
	held, bad := created(configMap("held")), created(configMap("bad"))
	b.note(applying(held), failed(held.ID), shut)
	later := shut.Add(lastRetry)
	plan := applying(bad)
	plan.Steps[0] = append(plan.Steps[0], inventory.Decision{ID: held.ID, Action: inventory.Hold})
	b.note(plan, failed(bad.ID), later)
	if got, want := b.next(later), later.Add(firstRetry); !got.Equal(want) {
		t.Errorf("the next try is at %s, want %s", got, want)
	}
}
