// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

var daemonSetKind = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}

// DaemonSet is the chain of one DaemonSet: what is in force, what the policy
// says, and what its nodes wait for. The error is an [*UnknownError].
func DaemonSet(in Input, name types.NamespacedName) (Chain, error) {
	name, err := FindDaemonSet(in.Observation, name)
	if err != nil {
		return Chain{}, err
	}
	b := &builder{Input: in, chain: Chain{DaemonSet: name, Next: in.Plan.NextLook}}
	d := in.daemonSet(name)
	b.commit()
	b.revision(name, d)
	b.hold(d)
	p, governed := in.Observation.Policies.For(name)
	if !governed {
		b.add("policy", Stops, "no UpgradePolicy has it: it is applied, and its pods are never restarted")
		b.said(name, nil, health.NotWanted)
		b.decide("", OK, "", in.Plan.NextLook)
		b.chain.Decision = "none: " + object(name) + " is in no policy"
		return b.chain, nil
	}
	b.chain.Policy = p.Name
	b.policy(p.Name)
	b.window(p, nil)
	for _, w := range b.status(p.Name).Waves {
		l := b.add("wave", Note, "%s: %d of %d nodes settled, %s", w.Name, w.Settled, w.Nodes, join(string(w.State), w.Message))
		l.Until = w.SoakUntil
	}
	b.budget(p.Name)
	b.counts(p.Name, name)
	b.nodes(p.Name, name)
	b.daemonSetSaid(name, d)
	b.chain.Decides = b.chain.firstHeldUp()
	return b.chain, nil
}

// firstHeldUp is the place of the first link that somebody has to do something about
// or, while there is something to be done, that waits; -1 without one.
func (c *Chain) firstHeldUp() int {
	first := slices.IndexFunc(c.Links, func(l Link) bool { return l.Mark == Stops })
	busy := slices.ContainsFunc(c.Links, func(l Link) bool { return l.Name == "node" || l.Name == "revision" && l.Mark != OK })
	if first >= 0 || !busy {
		return first
	}
	return slices.IndexFunc(c.Links, func(l Link) bool { return l.Mark == Waits })
}

func (b *builder) counts(policy string, name types.NamespacedName) {
	for _, c := range b.status(policy).DaemonSets {
		if c.Name != name {
			continue
		}
		mark := OK
		if c.Failed > 0 {
			mark = Stops
		}
		b.add("nodes", mark, "of %d on which it should run %d are up to date, %d available, %d failed", c.Desired, c.UpToDate, c.Available, c.Failed)
		b.chain.Decision = fmt.Sprintf("%d of %d nodes are up to date", c.UpToDate, c.Desired)
	}
}

// nodes are those that are not up to date, by what is decided of them. Each of
// a policy's nodes has one decision, about the DaemonSet that comes next there.
func (b *builder) nodes(policy string, name types.NamespacedName) {
	type group struct {
		reason  rollout.Reason
		message string
	}
	nodes := map[group][]string{}
	var order []group
	first := map[group]rollout.Decision{}
	for _, d := range b.Plan.Rollout.Decisions {
		if d.Policy != policy || d.DaemonSet != name || d.Reason == rollout.UpToDate {
			continue
		}
		g := group{d.Reason, d.Message}
		if nodes[g] == nil {
			order, first[g] = append(order, g), d
		}
		nodes[g] = append(nodes[g], d.Node)
	}
	const most = 10
	for _, g := range order[:min(len(order), most)] {
		_, mark := linkOf(g.reason)
		words := string(g.reason)
		if g.message != "" {
			words += ": " + g.message
		}
		l := b.add("node", mark, "%s: %s", some(nodes[g]), words)
		l.Until, l.Look = first[g].Until, "lamplighter why "+nodes[g][0]
	}
	if len(order) > most {
		b.add("node", Note, "and %d reasons more", len(order)-most)
	}
}

// some names nodes: each of a few, the first and how many more of many.
func some(nodes []string) string {
	const few = 3
	if len(nodes) <= few {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:few], ", "), len(nodes)-few)
}

// daemonSetSaid is the last warning about the DaemonSet and about its pods.
func (b *builder) daemonSetSaid(name types.NamespacedName, d *health.DaemonSet) {
	if b.EventsErr != nil {
		b.add("events", Note, "cannot be read: %v", b.EventsErr)
		return
	}
	if e, ok := lastEvent(b.Events, health.Subject{Kind: "DaemonSet", Name: name}, true); ok {
		b.add("event", Note, "%s", eventWords(e))
	}
	if d == nil {
		return
	}
	for _, p := range b.Observation.Pods {
		if p.Owner != d.UID || p.Ready {
			continue
		}
		e, ok := lastEvent(b.Events, health.Subject{Kind: "Pod", Name: p.Name, UID: p.UID}, true)
		if c := causeOf(p, e); c.Text != "" {
			b.add("cause", Note, "%s on %s: %s", p.Name, p.Node, c.Text).Look = c.Look
			if ok {
				b.add("event", Note, "%s", eventWords(e))
			}
			return
		}
	}
}
