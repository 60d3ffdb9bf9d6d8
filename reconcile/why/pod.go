// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

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
