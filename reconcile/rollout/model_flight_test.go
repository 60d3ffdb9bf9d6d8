// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A flight is an eviction that its agent's passes do not wait for. It waits for its
// turn, is sent, and is answered within longestRequest.
type flight struct {
	plan     *pendingPlan
	decision *Decision
	sent     time.Time
	result   AttemptResult // once there is one, of which its agent need not know yet
}

const longestRequest = 30 * time.Second

// underWay are the pods of which an agent has evictions under way.
func (a *fakeAgent) underWay() map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, f := range a.flights {
		pods[f.decision.Pod.UID] = true
	}
	return pods
}

// queued are those of them that wait to be sent.
func (a *fakeAgent) queued() map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, f := range a.flights {
		if f.sent.IsZero() {
			pods[f.decision.Pod.UID] = true
		}
	}
	return pods
}

// launch puts an eviction on its way, in the place of one that waits for its turn. It
// answers false when it is to be sent at once: what the plan has taken to be under way
// is not.
func (m *model) launch(a *fakeAgent, p *pendingPlan, d *Decision) (later bool) {
	known := p.obs.UnderWay[d.Pod.UID]
	for i := range a.flights {
		if f := &a.flights[i]; f.decision.Pod.UID == d.Pod.UID {
			if f.sent.IsZero() {
				f.plan, f.decision = p, d
			}
			return true
		}
	}
	if known {
		return true
	}
	if m.over || m.calm[m.steps] || !m.chance(3) {
		return false
	}
	a.flights = append(a.flights, flight{plan: p, decision: d})
	return true
}

// giveWay drops what waits for its turn and is not due any more.
func (m *model) giveWay(a *fakeAgent, p *pendingPlan) {
	a.flights = slices.DeleteFunc(a.flights, func(f flight) bool {
		return f.sent.IsZero() && !slices.ContainsFunc(p.plan.Decisions, func(d Decision) bool {
			return d.Action == Evict && d.Pod.UID == f.decision.Pod.UID
		})
	})
}

// fly sends some of what waits for its turn, and lets the API server answer some of what
// is sent.
func (m *model) fly(a *fakeAgent) {
	for i := range a.flights {
		f := &a.flights[i]
		switch {
		case f.result != "":
		case m.deposed(f):
			f.sent, f.result = m.now, Errored
		case !f.sent.IsZero():
		case !m.now.Add(a.offset).Before(f.decision.Pod.SendBefore):
			f.sent, f.result = m.now, Errored
		case m.soonOrLate():
			f.sent = m.now
		}
		if !f.sent.IsZero() && f.result == "" && m.soonOrLate() {
			f.result = m.arrive(f)
		}
	}
}

// deposed says that another leads for so long that the agent has lost its lease.
func (m *model) deposed(f *flight) bool {
	return m.ledger.Term.Number != f.plan.plan.Ledger.Term.Number && m.now.Sub(f.plan.made) > staleness
}

// soonOrLate answers true at once when there is no trouble.
func (m *model) soonOrLate() bool { return m.over || m.calm[m.steps] || m.chance(2) }

// arrive is what becomes of one that is sent. It is given up when it takes too long, and
// when its window shuts.
func (m *model) arrive(f *flight) AttemptResult {
	switch {
	case m.now.Sub(f.sent) > longestRequest, !m.open(f):
		return Errored
	case m.fails && !m.over && !m.calm[m.steps]:
		if m.chance(4) {
			m.late = append(m.late, lateDecision{f.plan, f.decision, m.now.Add(staleness)})
		}
		return Errored
	}
	return m.evict(f.plan, f.decision)
}

// open says that the window of an eviction is, by its agent's clock.
func (m *model) open(f *flight) bool {
	now := f.plan.clock.Add(m.now.Sub(f.plan.made))
	for _, p := range f.plan.policies {
		if p.Name == f.decision.Policy {
			return NewHours(p, f.plan.obs.Ledger, f.plan.obs.ClockProblem, now).For(f.plan.labels(f.decision.Node)).Open
		}
	}
	return false
}

// land brings an agent the answers that are there by now.
func (m *model) land(a *fakeAgent, l Ledger, now time.Time) Ledger {
	a.flights = slices.DeleteFunc(a.flights, func(f flight) bool {
		if f.result == "" || !m.soonOrLate() {
			return false
		}
		switch f.result {
		case Refused:
			l = l.Refuse(*f.decision, "not now", now)
		case Errored:
			l, _ = l.Errored(*f.decision, "no answer")
		}
		return true
	})
	return l
}

// crash leaves of what an agent has under way only what may be on its way to the API
// server.
func (m *model) crash(a *fakeAgent) {
	for _, f := range a.flights {
		if f.result == "" && m.chance(4) {
			m.late = append(m.late, lateDecision{f.plan, f.decision, f.plan.made.Add(staleness)})
		}
	}
	a.flights = nil
}
