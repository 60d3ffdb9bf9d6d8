// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"time"

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
	t.evict(s)
	return hold{action: Evict, reason: Start, message: note}
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
		*step = next
	case !t.doubtful(step):
		step.Evicted, step.Term = t.now, t.term.Number
	}
	t.alarm.at(t.certain(s.visit.step(d.key))) // in case nothing comes of it
}

// decide writes what a stop is held for, or that its pod is evicted.
func (t *tour) decide(s *stop) {
	d := &(*t.decisions)[s.decision]
	d.DaemonSet, d.State = s.set.Name, s.state
	d.Action, d.Reason, d.Until, d.Message = s.hold.action, s.reason(), s.hold.until, s.hold.message
	if d.Action == Drain {
		d.Drain, d.CordonedToo = t.policy.Drain, t.policy.CordonedNodes == policy.Visit
	}
	if pod := s.pod; d.Action == Evict {
		d.Pod = &Eviction{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	}
}

// settled is the decision about a node on which nothing is to be done.
func (s *look) settled(policy, wave string) Decision {
	d := Decision{Policy: policy, Node: s.node.Name, Wave: wave, Action: Keep, Reason: UpToDate}
	if s.set == nil && s.shown.set != nil {
		d.DaemonSet, d.State, d.Message = s.shown.set.Name, s.shown.state, s.shown.message
	}
	if s.shown.leftOver() {
		d.Action, d.Reason = Hold, WouldNotReturn
	}
	if s.set == nil && s.reason() != "" {
		d.Action, d.Reason, d.Until, d.Message = s.hold.action, s.reason(), s.hold.until, s.hold.message
	}
	return d
}
