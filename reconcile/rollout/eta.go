// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"lamplighter.dev/reconcile/window"
)

// followed is how many openings are walked through before the rest is taken to
// be like them.
const followed = 32

// work is what a policy has yet to do in one wave.
type work struct {
	lanes    int  // visits at once
	first    int  // visits at once until one has settled
	underWay int  // visits that are open and can go on
	waiting  int  // visits that are yet to start
	proven   bool // a visit has settled already
}

func (t *tour) newWork() []work {
	works := make([]work, len(t.waves))
	for i := range t.waves {
		works[i] = work{lanes: t.waves[i].slots(), first: t.policy.MaxFailures + 1}
	}
	return works
}

// finish estimates when the last node that is not blocked is settled, or says
// why none can. It takes every visit to last as long as the estimate, lets as
// many start at once as there are slots, one wave after another, and only so
// late that they end before the effective close. Windows that select nodes are
// taken to select all, and a topology not to matter.
func (t *tour) finish(works []work, s PolicyStatus) (time.Time, string) {
	if why := t.never(works, s); why != "" {
		return time.Time{}, why
	}
	done, proven := t.now, false
	for i := range works {
		w := &works[i]
		if w.underWay > 0 {
			done, w.proven = latest(done, t.now.Add(t.estimate)), true // one of them will
		}
		w.proven = w.proven || proven
		if w.waiting > 0 {
			var why string
			if done, why = t.finishWave(w, done); why != "" {
				return time.Time{}, why
			}
		}
		proven = w.proven
		if slices.ContainsFunc(works[i+1:], func(w work) bool { return w.waiting > 0 }) {
			done = t.waves[i].soakedAt(done)
		}
	}
	return done, ""
}

// soaked is when the wave after one may start, whose last visit ends at done.
func (w *wave) soakedAt(done time.Time) time.Time {
	switch {
	case w.state == WaveDone, w.soaked:
		return done
	case w.since.IsZero():
		return done.Add(w.Soak)
	default:
		return latest(done, w.since.Add(w.Soak))
	}
}

// finishWave walks through the openings from an instant on.
func (t *tour) finishWave(w *work, start time.Time) (time.Time, string) {
	from, todo, idle := start, w.waiting, 0
	state := t.window
	if start.After(t.now.Add(t.estimate)) {
		state = t.policy.Calendar.At(start).Any()
	}
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
	return t.extrapolate(w, todo-w.waiting, start, from)
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
func (t *tour) extrapolate(w *work, done int, from, to time.Time) (time.Time, string) {
	if done == 0 {
		return time.Time{}, fmt.Sprintf("a visit takes %s, longer than any of the next windows", t.estimate)
	}
	each := to.Sub(from) / time.Duration(done)
	return to.Add(each * time.Duration(w.waiting)), ""
}
