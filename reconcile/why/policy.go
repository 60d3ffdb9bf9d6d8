// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

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
