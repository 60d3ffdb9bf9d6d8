// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lamplighter.dev/reconcile/policy"
)

const modelInstance = "us"

// guests are the pods of others on a node, which have to go before it is empty.
type guests struct {
	here  bool
	stay  bool      // a disruption budget lets none of them go
	going time.Time // when those that were evicted are gone; zero when none was
}

// cordon is by a person, or for a visit of a policy.
func (n *fakeNode) cordon(on bool, policy string) {
	n.Unschedulable = on
	n.taint(corev1.TaintNodeUnschedulable, on)
	switch n.CordonTakenBy = ""; {
	case policy != "":
		n.person, n.CordonedBy = false, CordonMark(modelInstance, policy)
	default:
		n.person = on
		if on && n.CordonedBy != "" {
			n.CordonTakenBy = "kubectl"
		}
	}
}

// disturbCordon is what people do to a cordon. One who cordons a node that is
// cordoned already changes nothing.
func (m *model) disturbCordon(n *fakeNode) {
	if i := slices.IndexFunc(m.nodes, func(n *fakeNode) bool { return n.CordonedBy != "" }); i >= 0 {
		n = m.nodes[i]
	}
	switch m.rand.IntN(6) {
	case 0, 1:
		if !n.Unschedulable {
			n.cordon(true, "")
		}
	case 2, 3:
		n.cordon(false, "")
	case 4:
		n.cordon(true, "") // uncordons it first
	case 5: // takes it over
		n.person, n.CordonedBy, n.CordonTakenBy = n.Unschedulable, "", ""
	}
	m.say("%s cordoned %t, by a person %t, mark %q", n.Name, n.Unschedulable, n.person, n.CordonedBy)
}

func (m *model) disturbGuests(n *fakeNode) {
	switch m.rand.IntN(3) {
	case 0, 1:
		if !n.Unschedulable {
			n.guests = guests{here: true, stay: m.chance(4)}
		}
	case 2:
		n.guests.stay = false
	}
	m.say("%s has guests: %+v", n.Name, n.guests)
}

// drawDrain lets a policy drain its nodes.
func (m *model) drawDrain(p *policy.UpgradePolicy) {
	if m.chance(3) {
		p.Drain = &policy.Drain{Timeout: 3 * time.Minute}
	}
}

// drainLate goes on with drains of an earlier term. His own each leader waits for.
func (m *model) drainLate() {
	for _, e := range m.lateDrains {
		n := m.node(e.decision.Node)
		if n == nil || m.now.After(e.until) || e.plan.plan.Ledger.Term.Number == m.ledger.Term.Number {
			continue
		}
		m.say("late")
		m.checkVisited(e.plan, e.decision)
		m.drain(e.decision, n)
	}
	m.lateDrains = nil
}

// leave lets guests be gone that were evicted.
func (n *fakeNode) leave(now time.Time) {
	if !n.guests.going.IsZero() && !now.Before(n.guests.going) {
		n.guests = guests{}
	}
}

// empty takes the nodes of a plan that are drained one step further.
func (m *model) empty(a *fakeAgent, p *pendingPlan, l Ledger) Ledger {
	for i := range p.plan.Decisions {
		d := &p.plan.Decisions[i]
		n := m.node(d.Node)
		if d.Action != Drain || n == nil {
			continue
		}
		now := m.now.Add(a.offset)
		if m.fails && !m.over && !m.calm[m.steps] {
			l = l.Drained(*d, false, "no answer", now)
			continue
		}
		m.checkVisited(p, d)
		result := m.drain(d, n)
		m.soon = m.soon || result != Remaining
		switch result {
		case Refused:
			l = l.Refuse(*d, "not now", now)
		case Drained:
			l = l.Drained(*d, true, "", now)
		default:
			l = l.Drained(*d, false, "pods are left", now)
			m.delay(p, d)
		}
	}
	return l
}

// delay leaves a part of a drain on its way when another agent begins to lead.
func (m *model) delay(p *pendingPlan, d *Decision) {
	if !m.over && !m.calm[m.steps] && m.chance(8) {
		m.leader = 1 - m.leader
		m.lateDrains = append(m.lateDrains, lateDecision{p, d, m.now.Add(staleness)})
		m.say("agent %d leads, and %s is still being drained", m.leader, d.Node)
	}
}

// checkVisited: I2. A node that is drained, or whose pod is evicted, holds a slot,
// however late the leader of before comes to it. What a lost ledger had on record nobody knows.
func (m *model) checkVisited(p *pendingPlan, d *Decision) {
	lost := m.ledger.lost() || m.ledger.Term.Lost || m.ledger.Term.Number < p.plan.Ledger.Term.Number
	if !lost && m.ledger.visitTo(d.Policy, d.Node) == nil {
		m.Errorf("I2: %s goes to %s, and no visit is on record", d.Policy, d.Node)
	}
}

// drain cordons a node, unless somebody else has, and evicts its guests.
func (m *model) drain(d *Decision, n *fakeNode) AttemptResult {
	ours := n.CordonedBy == CordonMark(modelInstance, d.Policy) && n.CordonTakenBy == ""
	switch {
	case n.Unschedulable && !ours && !d.CordonedToo:
		return Errored
	case n.Unschedulable:
	case m.refuses && !m.over && !m.calm[m.steps] && m.chance(2):
		return Refused
	default:
		m.say("%s cordons %s", d.Policy, d.Node)
		n.cordon(true, d.Policy)
	}
	switch {
	case !n.guests.here:
		return Drained
	case !n.guests.stay && n.guests.going.IsZero():
		n.guests.going = m.now.Add(choose(m, 2*time.Second, 30*time.Second, 150*time.Second))
	}
	return Remaining
}

// giveBack takes cordons and marks off that are needed no more.
func (m *model) giveBack(p *pendingPlan) {
	for _, u := range p.plan.Uncordons {
		m.soon = true
		n := m.node(u.Node)
		if n == nil || n.CordonedBy != CordonMark(modelInstance, u.Policy) {
			continue
		}
		switch ours := n.Unschedulable && n.CordonTakenBy == ""; {
		case ours && u.MarkOnly:
			continue
		case ours && n.person:
			m.Errorf("I13: %s is uncordoned, which a person has cordoned", u.Node)
		case ours:
			n.cordon(false, "")
		}
		n.CordonedBy, n.CordonTakenBy = "", ""
		m.say("%s is given back for %s: %+v", u.Node, u.Policy, u)
	}
}

// cordoned is a node that still carries a cordon, or a mark, of ours; "" when none
// does.
func (m *model) cordoned() string {
	for _, n := range m.nodes {
		if n.CordonedBy != "" || n.Unschedulable {
			return n.Name
		}
	}
	return ""
}
