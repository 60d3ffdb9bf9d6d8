// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Node is one chain for every policy that has something on a node, by name. For
// a node on which none has anything, the one chain says why. The error is an
// [*UnknownError].
func Node(in Input, name string) ([]Chain, error) {
	if err := FindNode(in.Observation, name); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(in.Observation.Nodes, func(n health.Node) bool { return n.Name == name })
	node := &in.Observation.Nodes[i]
	var chains []Chain
	for _, d := range in.Plan.Rollout.Decisions {
		if d.Node == name {
			chains = append(chains, nodeChain(in, node, d))
		}
	}
	if len(chains) == 0 {
		chains = append(chains, strangerChain(in, node))
	}
	return chains, nil
}

func nodeChain(in Input, node *health.Node, d rollout.Decision) Chain {
	b := &builder{Input: in, chain: Chain{
		Node: node.Name, Policy: d.Policy, DaemonSet: d.DaemonSet, Next: in.Plan.NextLook,
		Decision: fmt.Sprintf("%s: %s", d.Action, d.Reason),
	}}
	p, _ := in.policy(d.Policy)
	set := in.daemonSet(d.DaemonSet)
	b.commit()
	b.revision(d.DaemonSet, set)
	b.placement(set, node)
	b.node(node)
	pod := b.pods(set, node, d)
	b.leak(d.DaemonSet, pod)
	b.said(d.DaemonSet, pod, d.State)
	b.tried(d, pod)
	if d.Reason != rollout.UpToDate {
		b.hold(set)
		b.policy(d.Policy)
		b.window(p, node)
		b.wave(d)
		b.gates(p, node)
		b.budget(d.Policy)
	}
	link, mark := linkOf(d.Reason)
	if d.Reason == rollout.Failed && d.State == health.Current {
		link = "job" // the pod is well: what came after it is not
	}
	message := d.Message
	if d.Reason == rollout.WindowShut || d.Reason == rollout.Frozen {
		message = "" // the calendar explains itself
	}
	b.decide(link, mark, message, d.Until)
	b.lookNext(link, node)
	if d.Reason == rollout.Start {
		b.add("eviction", OK, "the pod is evicted in this pass")
	}
	return b.chain
}

// lookNext names the command that shows more of what decides, where that is neither
// the pod nor the policy.
func (b *builder) lookNext(link string, node *health.Node) {
	look := ""
	switch link {
	case "job":
		look = fmt.Sprintf("kubectl -n %s get jobs,pods -l lamplighter.dev/node=%s", b.Observation.Instance.Namespace, node.Name)
	case "drain":
		look = "kubectl get pods -A --field-selector spec.nodeName=" + node.Name
	}
	if look != "" && b.chain.Decides >= 0 {
		b.chain.Links[b.chain.Decides].Look = look
	}
}

// strangerChain is for a node on which no policy has anything.
func strangerChain(in Input, node *health.Node) Chain {
	b := &builder{Input: in, chain: Chain{Node: node.Name, Decision: "none: no policy has a DaemonSet on this node", Next: in.Plan.NextLook}}
	b.commit()
	b.node(node)
	for _, p := range in.Observation.Policies.Upgrades {
		for _, name := range p.DaemonSets {
			set := in.daemonSet(name)
			if set == nil {
				b.add("placement", Note, "%s does not exist", name)
				continue
			}
			placer := health.NewPlacer(*set)
			b.add("placement", Note, "%s should not run here: %s", name, placer.On(node).Reason)
		}
	}
	if len(in.Observation.Policies.Upgrades) == 0 {
		b.add("policy", Note, "there is no UpgradePolicy")
	}
	b.decide("", OK, "", in.Plan.NextLook)
	return b.chain
}

func (in Input) policy(name string) (policy.UpgradePolicy, bool) {
	for _, p := range in.Observation.Policies.Upgrades {
		if p.Name == name {
			return p, true
		}
	}
	return policy.UpgradePolicy{}, false
}

func (in Input) status(policy string) rollout.PolicyStatus {
	for _, s := range in.Plan.Rollout.Policies {
		if s.Name == policy {
			return s
		}
	}
	return rollout.PolicyStatus{}
}

func (in Input) daemonSet(name types.NamespacedName) *health.DaemonSet {
	i := slices.IndexFunc(in.Observation.DaemonSets, func(d health.DaemonSet) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &in.Observation.DaemonSets[i]
}

// revision says which revision is wanted, and whether a newer template waits.
func (b *builder) revision(name types.NamespacedName, d *health.DaemonSet) {
	object := "DaemonSet/" + name.String()
	for _, n := range b.Observation.State.Record.Objects {
		if n.Object != object {
			continue
		}
		mark := Waits
		if n.Failed() {
			mark = Stops
		}
		l := b.add("revision", mark, "%s is not as Git says: %s", name, strings.TrimSuffix(n.Reason+": "+strings.TrimPrefix(n.Message, object+": "), ": "))
		l.Until = n.Until
		return
	}
	switch {
	case d == nil:
		b.add("revision", Stops, "%s does not exist", name)
	case !d.RevisionObserved:
		b.add("revision", Waits, "%s: the DaemonSet controller has not observed generation %d", name, d.Generation)
	default:
		b.add("revision", OK, "%s is at %s", name, d.Revision)
	}
}

func (b *builder) placement(d *health.DaemonSet, node *health.Node) {
	if d == nil {
		return
	}
	placer := health.NewPlacer(*d)
	switch p := placer.On(node); {
	case p.ShouldRun:
		b.add("placement", OK, "%s should run here", d.Name)
	case p.ShouldContinue:
		b.add("placement", Note, "a pod that is here may stay, and none would be created: %s", p.Reason).Look = "kubectl describe node " + node.Name
	default:
		b.add("placement", Note, "%s should not run here: %s", d.Name, p.Reason).Look = "kubectl describe node " + node.Name
	}
}

func (b *builder) node(n *health.Node) {
	switch {
	case n.Hold != "":
		b.add("node", Stops, "held: %s", n.Hold)
	case n.Deleting:
		b.add("node", Stops, "is being deleted")
	case !n.Ready:
		b.add("node", Stops, "not Ready: %s", n.NotReadyReason).Look = "kubectl describe node " + n.Name
	case n.Unschedulable:
		b.add("node", Note, "Ready, cordoned")
	default:
		b.add("node", OK, "Ready")
	}
}

// object is a DaemonSet's name as it is in all output.
func object(name types.NamespacedName) string {
	return inventory.Format(inventory.ID{GroupKind: daemonSetKind, Namespace: name.Namespace, Name: name.Name})
}
