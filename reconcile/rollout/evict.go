// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// evictions decides on which nodes a pod is evicted now.
func (t *tour) evictions(owners []*Visit) {
	slots, domains := t.newSlots(), t.newDomains()
	queue := t.newQueue(t.candidates(owners), domains)
	checks := []func(*stop) hold{t.stillRejected, t.heldByTrials, slots.hold, domains.hold, t.heldByGates, t.check, t.room}
	for !queue.empty() {
		s := queue.next(slots.free())
		h := s.firstHold(checks)
		s.hold = t.share(h)
		if s.reason() == "" || t.awaited(s) {
			slots.take(s)
			domains.take(s)
		}
		if t.awaited(s) {
			t.trials[s.set.key]++ // its turn comes before that of those behind it
		}
		t.leaveUndrained(s)
		if s.reason() == BudgetSpent || s.reason() == TopologyBusy {
			t.waitForOthers(s)
		}
		if s.reason() == "" {
			s.hold = t.share(t.goOn(s, h.message))
			owners[s.place] = s.visit
		}
		t.decide(s)
	}
}

// firstHold is what keeps a visit from going on. Without one it is only a note.
func (s *stop) firstHold(checks []func(*stop) hold) hold {
	note := ""
	for _, check := range checks {
		h := check(s)
		if h.reason != "" {
			return h
		}
		note = cmp.Or(note, h.message)
	}
	return hold{message: note}
}

// goOn takes the next step of a visit, which may be its first, and says which.
// Jobs run first, so that one that fails has disturbed nothing; then the node is
// drained, then the pod goes.
func (t *tour) goOn(s *stop, note string) hold {
	if h := t.runBefore(s); h.reason != "" {
		return h
	}
	if t.mustDrain(s) {
		return t.drain(s)
	}
	before := s.triedBefore()
	t.evict(s)
	return hold{action: Evict, reason: Start, message: cmp.Or(before, note)}
}

// heldByTrials keeps a node from a revision that enough others try.
func (t *tour) heldByTrials(s *stop) hold {
	if unproven := t.unproven(s); unproven != "" {
		return hold{action: Hold, reason: BudgetSpent, message: unproven}
	}
	return hold{}
}

// candidates are the places of the stops that nothing holds but perhaps the
// others. The rest is decided.
func (t *tour) candidates(owners []*Visit) []int {
	var candidates []int
	for i := range t.stops {
		s := &t.stops[i]
		if s.set == nil {
			continue
		}
		if s.reason() == "" {
			if owner := owners[s.place]; owner != nil && owner.Policy != t.policy.Name {
				s.hold = t.share(hold{action: Hold, reason: NodeBusy, message: t.busyWith(owner.Policy)})
				t.waitForOthers(s)
			}
		}
		if s.reason() == "" {
			candidates = append(candidates, i)
		} else {
			t.decide(s)
		}
	}
	return candidates
}

// busyWith is said of many nodes, and made once.
func (t *tour) busyWith(policy string) string {
	if t.busy[policy] == "" {
		t.busy[policy] = "policy " + policy + " visits the node"
	}
	return t.busy[policy]
}

// evict records the intent: a visit when there is none, and the step. The same
// eviction again is the same step, renewed when it has been tried for so long
// that the times that run from it would be wrong.
func (t *tour) evict(s *stop) {
	pod, d := s.pod, s.set
	if s.visit == nil {
		s.visit = t.book.begin(Visit{Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now})
	}
	s.visit.Commit = t.commit
	next := Step{
		DaemonSet: d.key, From: pod.Hash, To: d.Revision,
		Pod: pod.UID, GraceSeconds: int(pod.GracePeriod / time.Second), Evicted: t.now, Term: t.term.Number,
	}
	switch step := s.visit.step(d.key); {
	case step == nil:
		t.trials[d.key] += one(!s.visit.preparing()) // which is counted
		s.visit.Steps = append(s.visit.Steps, next)
	case step.To != next.To || step.Pod != next.Pod:
		t.trials[d.key] += one(step.To != next.To || !step.Settled.IsZero())
		next.Retried = step.Retried || step.Pod != next.Pod
		next.Resent = step.Pod == next.Pod && t.resent(step)
		*step = next
	case !t.doubtful(step):
		step.Evicted, step.Term, step.Resent = t.now, t.term.Number, false
	case t.unsent(step):
		again := step.Evicted.Add(doubt / 4) // not each time, since each is a write
		if t.alarm.at(again); !t.now.Before(again) {
			step.Evicted = t.now
		}
	default:
		step.Resent = t.resent(step)
	}
	t.alarm.at(t.certain(s.visit.step(d.key))) // in case nothing comes of it
}

// resent says that an eviction may have been sent before this one, other than the one
// that is under way: then nothing more is sent.
func (t *tour) resent(s *Step) bool { return s.Resent || (t.doubtful(s) && !t.underWay[s.Pod]) }

// unsent says that nothing has been sent yet by which the pod might be on its way: the
// eviction waits for its turn.
func (t *tour) unsent(s *Step) bool { return t.queued[s.Pod] && !s.Resent && s.Term == t.term.Number }

// decide writes what a stop is held for, or that its pod is evicted.
func (t *tour) decide(s *stop) {
	d := &(*t.decisions)[s.decision]
	d.Ruling = t.rule(ground{s.wave, s.set, s.state, s.hold})
	if pod := s.pod; d.Action == Evict || d.Action == Drain {
		d.Pod = &Eviction{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	}
	if d.Action == Evict {
		d.Pod.SendBefore = s.visit.step(s.set.key).Evicted.Add(doubt / 2)
	}
}

// nothingToDo is the ruling on a node on which nothing is to be done.
func (t *tour) nothingToDo(s *look) *Ruling {
	g := ground{s.wave, s.shown.set, s.shown.state, s.hold}
	switch {
	case s.reason() != "":
	case s.shown.leftOver():
		g.hold = t.share(hold{action: Hold, reason: WouldNotReturn, message: s.shown.message})
	default:
		g.hold = t.share(hold{action: Keep, reason: UpToDate, message: s.shown.message})
	}
	return t.rule(g)
}

// ground is what a tour rules by. Where it is the same, so is the ruling.
type ground struct {
	wave  int
	set   *daemonSet // nil when there is none to speak of
	state health.State
	hold  *hold
}

// rule returns the ruling that follows; for the same ground as the last time the
// same.
func (t *tour) rule(g ground) *Ruling {
	if t.ruling != nil && g == t.ground {
		return t.ruling
	}
	r := &Ruling{
		Policy: t.policy.Name, Wave: t.waves[g.wave].Name, State: g.state,
		Action: g.hold.action, Reason: g.hold.reason, Until: g.hold.until, Message: g.hold.message,
	}
	if g.set != nil {
		r.DaemonSet = g.set.Name
	}
	if r.Action == Drain {
		r.Drain, r.CordonedToo = t.policy.Drain, t.policy.CordonedNodes == policy.Visit
	}
	t.ground, t.ruling = g, r
	return r
}
