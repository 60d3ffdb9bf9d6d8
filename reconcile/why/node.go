// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
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

// pods says which pods are here, and returns the one that counts.
func (b *builder) pods(d *health.DaemonSet, node *health.Node, decision rollout.Decision) *health.Pod {
	if d == nil {
		return nil
	}
	var pod *health.Pod
	for _, p := range b.Observation.Pods {
		if p.Owner != d.UID || p.Node != node.Name {
			continue
		}
		if pod == nil || p.Created.After(pod.Created) || (p.Created.Equal(pod.Created) && p.Name.Name > pod.Name.Name) {
			pod = p
		}
	}
	switch {
	case pod == nil && decision.State == health.NotWanted:
		b.add("pod", OK, "none, and none is wanted")
	case pod == nil:
		b.add("pod", Waits, "there is none")
	default:
		l := b.add("pod", podMark(decision.State), "%s of %s: %s", pod.Name, revisionWords(d, pod), podWords(pod, decision.State))
		if !pod.Ready {
			l.Look = lookAt(pod)
		}
	}
	return pod
}

// revisionWords is the revision that a pod was made from.
func revisionWords(d *health.DaemonSet, p *health.Pod) string {
	if p.Hash != d.Revision && d.UpToDate(p) {
		return p.Hash + ", the same template as " + d.Revision
	}
	return p.Hash
}

// tried says what was said to evictions of the pod that came to nothing.
func (b *builder) tried(d rollout.Decision, pod *health.Pod) {
	l := b.Plan.Rollout.Ledger
	for _, r := range l.Refusals {
		if r.Errored && r.Policy == d.Policy && r.Node == d.Node && pod != nil && r.Pod == pod.UID && !strings.Contains(d.Message, r.Message) {
			b.add("tried", Note, "%s, at %s", r.Message, stamp(r.At))
		}
	}
	for _, v := range l.Visits {
		for _, s := range v.Steps {
			if v.Policy == d.Policy && v.Node == d.Node && pod != nil && s.Pod == pod.UID && s.Problem != "" {
				b.add("tried", Note, "the eviction came to nothing: %s", s.Problem)
			}
		}
	}
}

// leak says why a pod is new though no visit made it.
func (b *builder) leak(name types.NamespacedName, pod *health.Pod) {
	for _, l := range b.Plan.Rollout.Ledger.LeaksOf(name) {
		if pod != nil && l.Pod == pod.UID {
			b.add("leak", Note, "no visit made this pod: %s", join(string(l.Cause), l.Message))
		}
	}
}

func podMark(s health.State) Mark {
	switch s {
	case health.Failed, health.Stuck:
		return Stops
	case health.Settling, health.Replacing, health.Missing:
		return Waits
	default:
		return OK
	}
}

func podWords(p *health.Pod, s health.State) string {
	words := string(s)
	switch {
	case p.Deleting:
		words += ", is going"
	case p.Ready:
		words += ", Ready since " + stamp(p.ReadySince)
	default:
		words += ", not Ready"
	}
	return join(words, p.Problem.String())
}

func (b *builder) hold(d *health.DaemonSet) {
	switch {
	case d == nil:
	case d.Hold != "":
		b.add("hold", Stops, "the DaemonSet is held: %s", d.Hold)
	case !d.OnDelete:
		b.add("hold", Stops, "its update strategy is not OnDelete: the DaemonSet controller replaces its pods")
	}
}

func (b *builder) policy(name string) {
	s := b.status(name)
	switch {
	case s.Paused != nil:
		b.add("policy", Stops, "paused: %s", s.Paused.Reason).Look = "lamplighter resume " + name
	case s.Halted:
		l := b.add("policy", Stops, "halted: %s (%s)", s.HaltMessage, s.HaltEnds)
		if s.HaltEnds == rollout.HaltEnds(name) {
			l.Look = "lamplighter resume " + name
		}
	case b.Observation.ClockProblem != "":
		b.add("clock", Note, "%s", b.Observation.ClockProblem)
	default:
		b.add("policy", OK, "neither paused nor halted")
	}
}

// window says what the hours of a policy are for a node; nil is any node.
func (b *builder) window(p policy.UpgradePolicy, node *health.Node) {
	hours := rollout.NewHours(p, b.Observation.State.Ledger, b.Observation.ClockProblem, b.Now)
	state := hours.Any()
	if node != nil {
		state = hours.For(labels.Set(node.Labels))
	}
	mark := Waits
	if state.Open {
		mark = OK
	}
	l := b.add("window", mark, "%s", state.Explain())
	if !state.Open {
		l.Until = state.NextOpen
	}
}

func (b *builder) wave(d rollout.Decision) {
	if d.Wave == "" {
		return
	}
	for _, w := range b.status(d.Policy).Waves {
		if w.Name == d.Wave {
			b.add("wave", OK, "%s: %d of %d nodes settled, %s", w.Name, w.Settled, w.Nodes, w.State)
		}
	}
}

// budget says how many nodes are visited, and which.
func (b *builder) budget(policy string) {
	s := b.status(policy)
	var visited []string
	for _, v := range b.Observation.State.Ledger.Visits {
		if v.Policy == policy {
			visited = append(visited, v.Node)
		}
	}
	slices.Sort(visited)
	l := b.add("budget", OK, "%d of at most %d nodes are visited", len(visited), s.MaxUnavailable)
	const few = 3
	if len(visited) > 0 && len(visited) <= few {
		l.Text += ": " + strings.Join(visited, ", ")
	}
}

// said is the last that events tell of the pod or, without one, of the
// DaemonSet, and what a person would make of it.
func (b *builder) said(name types.NamespacedName, pod *health.Pod, state health.State) {
	if b.EventsErr != nil {
		b.add("events", Note, "cannot be read: %v", b.EventsErr)
		return
	}
	sick := pod == nil && state != health.NotWanted || pod != nil && !pod.Ready
	about := health.Subject{Kind: "DaemonSet", Name: name}
	if pod != nil {
		about = health.Subject{Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	e, ok := lastEvent(b.Events, about, sick)
	if sick {
		if c := causeOf(pod, e); c.Text != "" {
			l := b.add("cause", Note, "%s", c.Text)
			l.Look = c.Look
		}
	}
	if ok {
		b.add("event", Note, "%s", eventWords(e))
	}
}

// object is a DaemonSet's name as it is in all output.
func object(name types.NamespacedName) string {
	return inventory.Format(inventory.ID{GroupKind: daemonSetKind, Namespace: name.Namespace, Name: name.Name})
}
