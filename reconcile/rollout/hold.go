// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// hold is why nothing is evicted on a node.
type hold struct {
	action  Action
	reason  Reason
	until   time.Time
	message string
}

// share returns a hold for many nodes to have: of equal ones in a row there is one.
// That of the zero hold is nil.
func (t *tour) share(h hold) *hold {
	switch {
	case h == hold{}:
		return nil
	case t.shared == nil || *t.shared != h:
		shared := h
		t.shared = &shared
	}
	return t.shared
}

// awaited is what a verdict means for the next eviction of its pod; zero when
// that is ours to decide.
func awaited(v health.Verdict) hold {
	switch v.State {
	case health.Settling:
		return hold{Wait, Settling, v.Until, v.Message}
	case health.Replacing, health.Missing:
		return hold{Wait, Replacing, v.Until, v.Message}
	case health.Failed:
		return hold{Hold, Failed, time.Time{}, v.Message}
	case health.Stuck:
		return hold{Hold, StuckTerminating, time.Time{}, v.Message}
	case health.Unreachable:
		return hold{Hold, NodeNotReady, time.Time{}, v.Message}
	default:
		return hold{}
	}
}

// holdOf finds what keeps a node from its next eviction, whatever the slots:
// first what people did and what the node is, then time, then the rest. Without
// one the pod may be evicted if there is a slot.
func (t *tour) holdOf(s *stop) *hold {
	for _, held := range holds {
		if h := held(t, s); h.reason != "" {
			return t.share(h)
		}
	}
	return nil
}

// holds are what may keep a node from its next eviction, whatever the slots.
var holds = [...]func(*tour, *stop) hold{(*tour).heldBySomebody, (*tour).heldByTime, (*tour).heldByLoss, (*tour).heldByRefusal, (*tour).heldByAttempt, (*tour).knownNoRoom}

// heldByAttempt sends an eviction again for half of the time for which it is in
// doubt whether the one before was sent: what is sent must be seen before its visit
// is given up.
func (t *tour) heldByAttempt(s *stop) hold {
	if s.step == nil || s.pod == nil || s.step.Pod != s.pod.UID || !t.doubtful(s.step) || t.unsent(s.step) {
		return hold{}
	}
	certain := t.certain(s.step)
	last := certain.Add(-doubt / 2)
	t.alarm.at(last)
	if t.now.Before(last) {
		return hold{}
	}
	t.alarm.at(certain)
	return hold{Wait, Checking, t.after(certain), s.step.cameToNothing("it is awaited whether the pod is being evicted")}
}

func (t *tour) heldBySomebody(s *stop) hold {
	switch {
	case s.node.Hold != "":
		return hold{action: Hold, reason: NodeHeld, message: s.node.Hold}
	case s.set.Hold != "":
		return hold{action: Hold, reason: DaemonSetHeld, message: s.set.Hold}
	case !s.set.OnDelete:
		return hold{action: Hold, reason: DaemonSetHeld, message: "its update strategy is not OnDelete: the DaemonSet controller replaces its pods"}
	case s.node.Deleting:
		return hold{action: Hold, reason: NodeNotReady, message: "the node is being deleted"}
	case t.maintenance(s.node) != "":
		return hold{Hold, NodeMaintenance, t.maintainedUntil(s.node), t.maintenance(s.node)}
	case t.skipsCordoned(s.node):
		return hold{action: Hold, reason: NodeCordoned, message: cordonedBy(s.node)}
	case t.paused != nil:
		return hold{action: Hold, reason: Paused, message: t.paused.Reason}
	case t.halted != "":
		return hold{action: Hold, reason: Halted, message: t.halted}
	}
	return hold{}
}

// maintenance says who else is at work on a node; "" when nobody is.
func (t *tour) maintenance(n *health.Node) string {
	return cmp.Or(n.Maintenance, t.locked[n.Name].message)
}

// maintainedUntil is when that ends by itself; zero when it does not.
func (t *tour) maintainedUntil(n *health.Node) time.Time {
	if n.Maintenance != "" {
		return time.Time{}
	}
	until := t.after(t.locked[n.Name].until)
	t.alarm.at(until)
	return until
}

func cordonedBy(n *health.Node) string {
	switch {
	case n.CordonTakenBy != "":
		return "somebody has cordoned the node since we did: " + n.CordonTakenBy
	case n.CordonedBy == "":
		return "somebody has cordoned the node"
	}
	return "the node is cordoned for a visit of " + n.CordonedBy + ": if there is no such policy any more, uncordon it"
}

// skipsCordoned says that the policy leaves the node to whoever cordoned it.
func (t *tour) skipsCordoned(n *health.Node) bool {
	return n.Cordoned() && !t.marked(n) && t.policy.CordonedNodes != policy.Visit
}

func (t *tour) heldByTime(s *stop) hold {
	w := t.windowOf(s.node)
	e, h := t.reckon(s, w)
	if !s.begun {
		t.longest = max(t.longest, e.whole)
	}
	if h.reason != "" {
		return h
	}
	switch {
	case !w.Open && !t.perNode:
		return t.shut
	case !w.Open:
		return shut(*w)
	case !s.set.RevisionObserved:
		return hold{action: Hold, reason: RevisionNotObserved, message: "the DaemonSet controller has not observed the newest template"}
	case s.set.TemplatePending:
		return hold{action: Hold, reason: RevisionNotObserved, message: "a newer template is not applied yet"}
	case w.Close.IsZero(), s.visit != nil && s.begun:
		return hold{}
	}
	takes, what := e.left(s.visit)
	last := w.Close.Add(-takes)
	t.alarm.at(last.Add(1))
	if t.now.After(last) {
		return hold{Hold, TooLateToStart, w.NextOpen, t.late.of(lateness{what, w.By, w.Close}, func() string {
			return fmt.Sprintf("%s takes %s and %s closes at %s", what, takes, named(w.By), w.Close.UTC().Format(time.RFC3339))
		})}
	}
	return hold{}
}

// reckon finds what a visit is to take on a node: as long as most did or, where that
// fits into no opening ahead, as half of them did, since else a few slow ones would keep
// all others from being measured. One that is longer still is held: waiting for the next
// opening would be in vain.
func (t *tour) reckon(s *stop, w *window.State) (estimate, hold) {
	most, half := t.lengths.most, t.lengths.half
	switch {
	case s.visit != nil && s.begun, t.fits(s, w, most):
		return most, hold{}
	case w.NextOpen.IsZero() && (!w.Open || w.Close.Sub(w.Opened) >= most.whole || !t.fits(s, w, half)):
		return most, hold{} // it is the last opening, and merely late
	case t.fits(s, w, half):
		return half, hold{}
	}
	fit := t.fitFor(s.node, most.whole)
	return most, hold{action: Hold, reason: WindowTooShort, message: t.short.of(fit, func() string {
		ahead := "ahead"
		if !fit.Until.IsZero() {
			ahead = "until " + fit.Until.Format(time.RFC3339)
		}
		return fmt.Sprintf("a visit takes %s, and no opening %s lasts that long", window.FormatDuration(most.whole), ahead)
	})}
}

// fits says that a visit of such a length ends before the window of its node shuts, or
// has its place in another opening.
func (t *tour) fits(s *stop, w *window.State, e estimate) bool {
	takes, _ := e.left(s.visit)
	inTime := w.Open && (w.Close.IsZero() || !t.now.After(w.Close.Add(-takes)))
	return inTime || t.fitFor(s.node, e.whole).Found
}

// fitFor says whether something of that length fits into an opening for a node.
func (t *tour) fitFor(n *health.Node, length time.Duration) window.Fit {
	if t.perNode {
		return t.hours.fits(n.Labels, length)
	}
	fit, known := t.fitOf[length]
	if !known {
		fit = t.hours.fits(n.Labels, length)
		t.fitOf[length] = fit
	}
	return fit
}

// lateness is what makes it too late for a visit to start, or for the rest of one.
type lateness struct {
	what, window string
	closes       time.Time
}

// shut is the hold that a calendar means which is not open.
func shut(w window.State) hold {
	switch {
	case w.Doubt != "":
		return hold{Hold, ClockUntrusted, time.Time{}, w.Doubt}
	case w.Frozen:
		return hold{Hold, Frozen, w.NextOpen, "freeze " + w.FrozenBy()}
	case w.NextOpen.IsZero():
		return hold{Hold, WindowShut, time.Time{}, w.NothingAhead()}
	default:
		return hold{Hold, WindowShut, w.NextOpen, w.By + " opens next"}
	}
}

func named(window string) string {
	if window == "" {
		return "the window"
	}
	return window
}

// heldByRefusal leaves a pod alone for a while that the API server would not
// evict, so that other nodes get their turn.
func (t *tour) heldByRefusal(s *stop) hold {
	r := t.refusal(s)
	if r == nil {
		return hold{}
	}
	s.refused = r
	if r.Errored && !r.Drained {
		return hold{} // the node comes last, and that is enough
	}
	until := r.triedAgain()
	t.alarm.at(until)
	if t.now.Before(until) {
		if r.Gate != "" {
			return hold{Hold, GateShut, until, r.Message}
		}
		if r.Drain {
			return hold{Hold, DrainFailed, until, r.Message}
		}
		return hold{Hold, DisruptionBudget, until, r.Message}
	}
	return hold{}
}

// restrain finds the holds of a tour. A visit that cannot go on, and of which
// nothing has happened, gives its slot back once it is beyond doubt that
// nothing has. So does one whose node is up, in a wave whose turn is not yet or
// without room for its next pod, or drained for what has to wait.
func (t *tour) restrain() {
	for i := range t.stops {
		if s := &t.stops[i]; s.set != nil && s.hold == nil {
			s.hold = t.holdOf(s)
		}
	}
	for i := range t.stops {
		s := &t.stops[i]
		t.stuck.take(s)
		t.waves[s.wave].visits.take(s)
	}
	t.holdWaves()
	for i := range t.stops {
		switch s := &t.stops[i]; {
		case s.set == nil, s.visit == nil:
		case s.reason() == "":
			t.giveUp(s)
		case t.waitsDrained(s), (!s.begun || s.reason().byWave() || (s.reason() == NoRoom && !s.down)) && !t.inDoubt(s.visit):
			t.forsake(s)
		}
	}
}

// giveUp ends a visit that has waited in vain, for its Job, its drain or its
// eviction.
func (t *tour) giveUp(s *stop) {
	for _, inVain := range []func(*stop){t.giveUpJobs, t.giveUpDrain, t.giveWay} {
		if inVain(s); s.visit == nil {
			return
		}
	}
}

// giveWay lets go of a visit whose next eviction was tried for so long that
// something must be in its way, though nobody refused it: a webhook that fails,
// say. A node that is down by our doing keeps its slot.
func (t *tour) giveWay(s *stop) {
	pod := s.pod
	if s.step == nil || s.step.Retried || s.step.Pod != pod.UID || !s.step.Settled.IsZero() || s.underWay > 1 || (s.begun && s.down) {
		return
	}
	if t.inDoubt(s.visit) {
		return
	}
	r := Refusal{
		Policy: t.policy.Name, Node: s.node.Name, DaemonSet: s.set.key, Pod: pod.UID, At: t.now, Errored: true,
		Message: s.step.cameToNothing("no eviction was possible within " + doubt.String()), Drained: !s.visit.Drain.Done.IsZero(),
	}
	t.book.refuse(r)
	s.refused = &r
	t.forsake(s)
	h := t.heldByRefusal(s)
	h.until = time.Time{} // it runs from now
	s.hold = t.share(h)
}

// forsake ends a visit that has nothing under way, and of what is in vain
// leaves no trace.
func (t *tour) forsake(s *stop) {
	v := s.visit
	if v.preparing() {
		t.trials[s.set.key]--
	}
	v.Steps = slices.DeleteFunc(slices.Clone(v.Steps), func(step Step) bool {
		if step.Settled.IsZero() {
			t.trials[step.DaemonSet] -= one(step.To == t.revision(step.DaemonSet))
		}
		return step.Settled.IsZero()
	})
	if len(v.Steps) > 0 {
		t.book.end(v, Released, t.now)
	} else {
		t.book.withdraw(v)
	}
	s.visit, s.step = nil, nil
}

func (t *tour) inDoubt(v *Visit) bool {
	doubtful := t.drainInDoubt(v)
	for i := range v.Steps {
		t.alarm.at(t.certain(&v.Steps[i]))
		doubtful = doubtful || t.doubtful(&v.Steps[i])
	}
	return doubtful
}
