// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"lamplighter.dev/reconcile/policy"
)

// checkDrains: I13. I1 and I6 hold for the pods that a drain evicts too, no first
// eviction comes before its drain, and no drain outlasts its time. No node is given
// back that is needed, and each that is needed no more is.
func (c *check) checkDrains(t reporter, p Plan) {
	t.Helper()
	for _, d := range p.Decisions {
		node, pol := c.nodes[d.Node], c.policies[d.Policy]
		before := c.visits[visitKey{d.Policy, d.Node}]
		window := NewHours(pol, c.obs.Ledger, c.obs.ClockProblem, c.now).For(labels.Set(node.Labels))
		switch {
		case (d.Drain != nil) != (d.Action == Drain):
			t.Errorf("malformed decision on %s: %+v", d.Node, *d.Ruling)
		case d.Action == Drain && (pol.Drain == nil || !window.Open || !node.Ready || node.Hold != ""):
			t.Errorf("I13: drains node %+v for %s, window open: %t", node, d.Policy, window.Open)
		case d.Action == Drain && p.Ledger.visitOf(&d) == nil:
			t.Errorf("I2: drains %s, and no visit is on record", d.Node)
		case d.Action == Drain && !c.now.Before(p.Ledger.visitOf(&d).Drain.Since.Add(pol.Drain.Timeout)):
			t.Errorf("I13: drains %s since %s", d.Node, p.Ledger.visitOf(&d).Drain.Since)
		case d.Action == Drain && node.Cordoned() && pol.CordonedNodes != policy.Visit && (node.CordonedBy != CordonMark(c.obs.Instance, d.Policy) || node.CordonTakenBy != ""):
			t.Errorf("I13: drains %s, which somebody else has cordoned", d.Node)
		case d.Action == Evict && pol.Drain != nil && len(before.Steps) == 0 && (before.Drain.Done.IsZero() || !node.Cordoned()):
			t.Errorf("I13: evicts on %s, which is not drained", d.Node)
		}
	}
	given := map[string]bool{}
	for _, u := range p.Uncordons {
		given[u.Node] = true
		needed := slices.ContainsFunc(p.Ledger.Visits, func(v Visit) bool { return v.Policy == u.Policy && v.Node == u.Node })
		if c.nodes[u.Node].CordonedBy != CordonMark(c.obs.Instance, u.Policy) || (needed && !u.MarkOnly && c.policies[u.Policy].Drain != nil) {
			t.Errorf("I13: gives %s back for %s", u.Node, u.Policy)
		}
		if n := c.nodes[u.Node]; n.CordonTakenBy != "" && !u.MarkOnly {
			t.Errorf("I13: takes off the cordon of %s, which is %s's", u.Node, n.CordonTakenBy)
		}
	}
	for _, n := range c.obs.Nodes {
		name, ours := strings.CutPrefix(n.CordonedBy, CordonMark(c.obs.Instance, ""))
		needed := slices.ContainsFunc(p.Ledger.Visits, func(v Visit) bool {
			return v.Policy == name && v.Node == n.Name && (c.policies[name].Drain != nil || c.mayDrain(p, v))
		})
		if ours && !needed && !n.AtWork && !given[n.Name] {
			t.Errorf("I13: %s stays cordoned for %s, and no visit of it is open", n.Name, name)
		}
	}
}

// mayDrain says that an earlier leader may go on with the drain of a visit.
func (c *check) mayDrain(p Plan, v Visit) bool {
	young := c.obs.ClockProblem != "" || c.now.Before(p.Ledger.Term.Since.Add(doubt))
	return !v.Drain.Since.IsZero() && v.Drain.Term != p.Ledger.Term.Number && young
}

// empty cordons the nodes of a plan that are drained, and looks whether they are
// empty; and gives back those that are to be.
func (c *chaos) empty(t *rapid.T, plan Plan, accident string) {
	for i, d := range plan.Decisions {
		n := c.nodes[d.Node]
		if d.Action != Drain || n == nil || (accident == "dies half-way" && i%2 == 1) {
			continue
		}
		if !n.cordon {
			n.cordonedBy = CordonMark("us", d.Policy)
		}
		if accident != "dies half-way" {
			c.ledger = c.ledger.Drained(d, c.recovered || rapid.Bool().Draw(t, "empty"), "pods are left", c.now)
		}
	}
	for _, u := range plan.Uncordons {
		if n := c.nodes[u.Node]; n != nil && n.cordonedBy == CordonMark("us", u.Policy) {
			n.cordonedBy = ""
		}
	}
}

// drains says that the last plan has to be looked after.
func (c *chaos) drains() bool {
	return slices.ContainsFunc(c.last.Decisions, func(d Decision) bool { return d.Action == Drain }) || len(c.last.Uncordons) > 0
}
