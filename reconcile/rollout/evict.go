// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lamplighter.dev/reconcile/health"
)

// evictions decides on which nodes a pod is evicted now.
//
// Visits that are open go on before others start. Then come nodes that are down
// already, so that a new revision mends what the last one broke before it
// touches what works; then the oldest pods; then names. Where an eviction came
// to nothing before, the others go first, so that each gets its turn.
func (t *tour) evictions(owners map[string]*Visit) {
	used, most, down := t.visits(), t.slots(), t.down()
	var candidates []int
	for i := range t.stops {
		switch s := &t.stops[i]; {
		case s.set == nil:
		case s.hold.reason == "":
			candidates = append(candidates, i)
		default:
			t.decide(s)
		}
	}
	t.sort(candidates, used < most)
	spent := fmt.Sprintf("%d of at most %d nodes are visited", max(used, most), most)
	for _, i := range candidates {
		s := &t.stops[i]
		switch owner, unproven := owners[s.node.Name], t.unproven(s); {
		case owner != nil && owner.Policy != t.policy.Name:
			s.hold = hold{action: Hold, reason: NodeBusy, message: "policy " + owner.Policy + " visits the node"}
		case unproven != "":
			s.hold = hold{action: Hold, reason: BudgetSpent, message: unproven}
		case s.visit == nil && used >= most:
			s.hold = hold{action: Hold, reason: BudgetSpent, message: spent}
		case s.visit != nil && !s.down && down >= most:
			s.hold = hold{action: Hold, reason: BudgetSpent, message: fmt.Sprintf("%d of at most %d visited nodes are down", down, most)}
		default:
			used += one(s.visit == nil)
			down += one(s.visit == nil || !s.down)
			t.evict(s)
			owners[s.node.Name] = s.visit
			s.hold = hold{action: Evict, reason: Start}
		}
		t.decide(s)
	}
}

// sort puts the candidates in order. Without a free slot the order of those that
// would start a visit does not matter, and they may be very many.
func (t *tour) sort(candidates []int, free bool) {
	slices.SortFunc(candidates, func(a, b int) int {
		x, y := &t.stops[a], &t.stops[b]
		if !free && x.visit == nil && y.visit == nil {
			return cmp.Compare(a, b)
		}
		return x.before(y)
	})
}

// visits counts the slots that are held.
func (t *tour) visits() int {
	n := 0
	for i := range t.stops {
		n += one(t.stops[i].visit != nil)
	}
	return n
}

// down counts the visits that hold a node out of service right now. There are
// more visits than slots after a ledger was lost or the number was lowered;
// then those whose node is up wait between two DaemonSets.
func (t *tour) down() int {
	n := 0
	for i := range t.stops {
		n += one(t.stops[i].visit != nil && t.stops[i].down)
	}
	return n
}

// before orders the candidates. Their decisions are in order of names.
func (s *stop) before(o *stop) int {
	if c := s.rank() - o.rank(); c != 0 {
		return c
	}
	if c := s.refused.Compare(o.refused); c != 0 {
		return c
	}
	if c := s.verdict.Pod.Created.Compare(o.verdict.Pod.Created); c != 0 {
		return c
	}
	return s.decision - o.decision
}

func (s *stop) rank() int {
	switch {
	case s.visit != nil && s.begun:
		return 0
	case s.visit != nil:
		return 1
	case !s.refused.IsZero():
		return 4
	case s.verdict.State == health.OutdatedDown:
		return 2
	default:
		return 3
	}
}

// evict records the intent: a visit when there is none, and the step. The same
// eviction again is the same step, renewed when it has been tried for so long
// that the times that run from it would be wrong.
func (t *tour) evict(s *stop) {
	pod, d := s.verdict.Pod, s.set
	if s.visit == nil {
		s.visit = t.book.begin(Visit{Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now})
	}
	s.visit.Commit = t.commit
	next := Step{
		DaemonSet: d.key, From: pod.Hash, To: d.Revision,
		Pod: pod.UID, GraceSeconds: int(pod.GracePeriod / time.Second), Evicted: t.now,
	}
	switch step := s.visit.step(d.key); {
	case step == nil:
		s.visit.Steps = append(s.visit.Steps, next)
		t.trials[d.key]++
	case step.To != next.To || step.Pod != next.Pod:
		t.trials[d.key] += one(step.To != next.To || !step.Settled.IsZero())
		next.Retried = step.Retried || step.Pod != next.Pod
		*step = next
	case !t.now.Before(step.Evicted.Add(doubt)):
		step.Evicted = t.now
	}
	t.alarm.at(s.visit.step(d.key).Evicted.Add(doubt)) // in case nothing comes of it
}

// decide writes what a stop is held for, or that its pod is evicted.
func (t *tour) decide(s *stop) {
	d := &(*t.decisions)[s.decision]
	d.DaemonSet, d.State = s.set.Name, s.verdict.State
	d.Action, d.Reason, d.Until, d.Message = s.hold.action, s.hold.reason, s.hold.until, s.hold.message
	if pod := s.verdict.Pod; d.Action == Evict {
		d.Pod = &Eviction{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	}
}

// settled is the decision about a node on which nothing is to be done.
func (s *stop) settled(policy string) Decision {
	d := Decision{Policy: policy, Node: s.node.Name, Action: Keep, Reason: UpToDate}
	if s.set == nil && s.shown.set != nil {
		d.DaemonSet, d.State, d.Message = s.shown.set.Name, s.shown.state, s.shown.message
	}
	if s.shown.leftOver() {
		d.Action, d.Reason = Hold, WouldNotReturn
	}
	return d
}
