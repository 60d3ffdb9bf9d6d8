// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// gates says what is known of each gate that a visit to the node has to pass. One
// that holds it is a link of its own.
func (b *builder) gates(p policy.UpgradePolicy, node *health.Node) {
	var known []string
	for _, g := range p.GatesOf(max(0, p.WaveOf(labels.Set(node.Labels)))) {
		known = append(known, g.Name+" "+b.gate(p, g, node))
	}
	if len(known) > 0 {
		b.add("gates", Note, "%s", strings.Join(known, "; "))
	}
}

func (b *builder) gate(p policy.UpgradePolicy, g policy.Gate, node *health.Node) string {
	switch {
	case g.Job.When != "":
		return fmt.Sprintf("is a Job %s the visit", strings.ToLower(string(g.Job.When)))
	case g.NodeCondition.Type != "":
		return fmt.Sprintf("wants %s to be %s, and it is %s", g.NodeCondition.Type, g.NodeCondition.Status, statusOf(node, g.NodeCondition.Type))
	}
	objections := b.Plan.Rollout.Ledger.Objections
	i := slices.IndexFunc(objections, func(o rollout.Objection) bool { return o.Policy == p.Name && o.Gate == g.Name })
	switch {
	case i < 0:
		return "is not known to be shut"
	case objections[i].Unknown:
		return fmt.Sprintf("cannot be read since %s", stamp(objections[i].Since))
	}
	return fmt.Sprintf("is shut since %s", stamp(objections[i].Since))
}

// statusOf is the status of a node's condition.
func statusOf(n *health.Node, condition string) string {
	for _, c := range n.Conditions {
		if string(c.Type) == condition {
			return string(c.Status)
		}
	}
	return "not set"
}
