// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"lamplighter.dev/reconcile/window"
)

// followed is how many openings are walked through before the rest is taken to
// be like them.
const followed = 32

// work is what a policy has yet to do.
type work struct {
	lanes    int  // visits at once
	first    int  // visits at once until one has settled
	underWay int  // visits that are open and can go on
	waiting  int  // visits that are yet to start
	proven   bool // a visit has settled already
}

// finish estimates when the last node that is not blocked is settled, or says
// why none can. It takes every visit to last as long as the estimate, lets as
// many start at once as there are slots, and only so late that they end before
// the effective close. Windows that select nodes are taken to select all.
func (t *tour) finish(w work, s PolicyStatus) (time.Time, string) {
	if why := t.never(w, s); why != "" {
		return time.Time{}, why
	}
	done := t.now
	if w.underWay > 0 {
		done, w.proven = t.now.Add(t.estimate), true // one of them will
	}
	if w.waiting == 0 {
		return done, ""
	}
	from, state, idle := done, t.window, 0
	for n := range followed {
		if !state.Open {
			if state.NextOpen.IsZero() {
				return time.Time{}, "no window opens again"
			}
			from = latest(from, state.NextOpen)
			state = t.policy.Calendar.At(from).Any()
			continue
		}
		last, settled := w.spend(from, state, t.estimate)
		if w.waiting == 0 {
			return last, ""
		}
		idle += one(settled == 0)
		if state.NextOpen.IsZero() {
			return time.Time{}, fmt.Sprintf("no window opens again, %d nodes would remain", w.waiting)
		}
		if n >= followed/2 && idle > n/2 {
			break
		}
		from, state = state.NextOpen, t.policy.Calendar.At(state.NextOpen).Any()
	}
	return t.extrapolate(w, s, from)
}

// spend fills one opening with visits. It returns when the last one ends and
// how many there were.
func (w *work) spend(from time.Time, state window.State, estimate time.Duration) (time.Time, int) {
	spent := 0
	for w.waiting > 0 {
		end := from.Add(estimate)
		if !state.Close.IsZero() && end.After(state.Close) {
			break
		}
		lanes := w.lanes
		if !w.proven {
			lanes = min(lanes, w.first)
		}
		n := min(lanes, w.waiting)
		if state.Close.IsZero() && w.proven {
			rounds := (w.waiting + lanes - 1) / lanes
			end, n = from.Add(time.Duration(rounds)*estimate), w.waiting
		}
		w.waiting, w.proven, spent, from = w.waiting-n, true, spent+n, end
	}
	return from, spent
}

// extrapolate takes the time after the openings that were followed to be like
// the time before.
func (t *tour) extrapolate(w work, s PolicyStatus, to time.Time) (time.Time, string) {
	done := s.Remaining - s.Blocked - w.underWay - w.waiting
	if done == 0 {
		return time.Time{}, fmt.Sprintf("a visit takes %s, longer than any of the next windows", t.estimate)
	}
	each := to.Sub(t.now) / time.Duration(done)
	return to.Add(each * time.Duration(w.waiting)), ""
}
