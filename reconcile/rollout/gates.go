// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// heldByGates holds the start of a visit while a gate of the policy or of its
// wave is shut, or what it says is not known. A visit that has begun goes on: a
// node that is half-way is no better for it.
func (t *tour) heldByGates(s *stop) hold {
	if s.visit != nil && (s.begun || s.visit.preparing()) {
		return hold{}
	}
	gates := t.policy.GatesOf(s.wave)
	for _, g := range gates {
		if want := g.NodeCondition; want.Type != "" && conditionOf(s.node, want.Type) != want.Status {
			return hold{action: Hold, reason: GateShut, message: fmt.Sprintf(
				"gate %s: %s of the node is %s, wanted %s", g.Name, want.Type, conditionOf(s.node, want.Type), want.Status)}
		}
	}
	if len(gates) == 0 {
		return hold{}
	}
	return t.askGates(s.wave, gates)
}

// conditionOf is the status of a node's condition. One that is not there has
// none that could be wanted.
func conditionOf(n *health.Node, conditionType string) string {
	for _, c := range n.Conditions {
		if c.Type == corev1.NodeConditionType(conditionType) {
			return string(c.Status)
		}
	}
	return "not set"
}

// askGates asks about all gates of a wave at once, and once in a plan.
func (t *tour) askGates(wave int, gates []policy.Gate) hold {
	if h, asked := t.gateHolds[wave]; asked {
		return h
	}
	var held hold
	for _, g := range gates {
		if h := t.askGate(g); held.reason == "" || (held.reason == Checking && h.reason == GateShut) {
			held = h
		}
	}
	t.gateHolds[wave] = held
	return held
}

// askGate asks about a gate that is not about nodes.
func (t *tour) askGate(g policy.Gate) hold {
	q, asks := questionOf(g)
	if !asks {
		return hold{}
	}
	a := t.inquiry.heed(q, t.inquiry.answers[q])
	if o := t.book.objection(Objection{Policy: t.policy.Name, Gate: g.Name}); t.inquiry.supposed && o != nil {
		return hold{action: Hold, reason: GateShut, message: "gate " + g.Name + ": " + o.Message}
	}
	switch a.Reply {
	case Yes:
		return hold{}
	case "":
		return hold{action: Hold, reason: Checking, message: "gate " + g.Name + " is asked"}
	}
	return hold{action: Hold, reason: GateShut, until: t.after(a.askedAgain(q.Kind)), message: "gate " + g.Name + ": " + a.Message}
}

// questionOf is what there is to ask about a gate.
func questionOf(g policy.Gate) (q Question, asks bool) {
	switch {
	case g.HTTP != (policy.HTTPGate{}):
		return Question{Kind: HTTPGate, HTTP: g.HTTP}, true
	case g.Prometheus != (policy.PrometheusGate{}):
		return Question{Kind: PrometheusGate, Prometheus: g.Prometheus}, true
	}
	return Question{}, false
}

// hearGates puts on record which gates are shut while there is something that
// waits for them.
func (t *tour) hearGates() {
	waits := slices.ContainsFunc(t.stops, func(s stop) bool { return s.set != nil })
	for _, g := range t.policy.AllGates() {
		q, asks := questionOf(g)
		about := Objection{Policy: t.policy.Name, Gate: g.Name}
		switch {
		case !asks, !waits:
			t.book.overrule(about)
		default:
			t.book.hear(about, t.inquiry.answers[q])
		}
	}
}
