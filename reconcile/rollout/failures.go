// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// noteFailure remembers a failed node until it is known whether it counts.
func (t *tour) noteFailure(place int, step *Step, d *daemonSet, v health.Verdict, node string) {
	if !v.Overdue || d.Revision == "" || !d.RevisionObserved {
		return
	}
	t.broken = append(t.broken, brokenNode{place: place, visited: step != nil, Failure: Failure{
		Policy: t.policy.Name, Node: node, DaemonSet: d.key, Revision: d.Revision, Message: v.Message, At: t.now,
	}})
}

// brokenNode is a node that is failed in this pass.
type brokenNode struct {
	Failure
	place   int // of the DaemonSet in the policy
	visited bool
}

// recordFailures puts the failed nodes of this pass on record. One that we did
// not visit counts too while the revision is still being rolled out: whatever
// re-created its pod, it tells of the revision. Once no node is left to visit
// there is nothing to stop, and a pod that breaks is only shown.
func (t *tour) recordFailures() {
	for _, b := range t.broken {
		if b.visited || t.outdated[b.place] > 0 {
			t.book.fail(b.Failure)
		}
	}
}

// judge finds out whether the policy is halted, from the failures on record,
// and how many nodes may try a revision that no visit has settled on.
func (t *tour) judge() {
	t.trials, t.amnesty = map[string]int{}, map[string]int{}
	for i := range t.stops {
		if v := t.stops[i].visit; v != nil {
			if v.preparing() && t.stops[i].set != nil {
				t.trials[t.stops[i].set.key]++
			}
			for _, s := range v.Steps {
				t.trials[s.DaemonSet] += one((s.Settled.IsZero() || t.verifies) && s.To == t.revision(s.DaemonSet))
			}
		}
	}
	for _, f := range t.book.ledger.Failures {
		t.amnesty[f.DaemonSet] += one(f.Policy == t.policy.Name && f.Acknowledged && lists(t.policy, f.DaemonSet))
	}
	t.halted = cmp.Or(Halts(t.book.ledger.Failures, t.policy), t.astray())
}

// Halts says why failures on record halt a policy; "" when they do not. A
// failure of a DaemonSet that the policy has dropped is kept for its return and
// counts against nobody.
func Halts(failures []Failure, p policy.UpgradePolicy) string {
	nodes := map[string]Failure{}
	for _, f := range failures {
		if f.Policy != p.Name || f.Acknowledged || !lists(p, f.DaemonSet) {
			continue
		}
		if first, ok := nodes[f.Node]; !ok || f.At.Before(first.At) || (f.At.Equal(first.At) && compareFailures(f, first) < 0) {
			nodes[f.Node] = f
		}
	}
	if len(nodes) <= p.MaxFailures {
		return ""
	}
	first := firstFailure(nodes)
	return fmt.Sprintf("nodes failed: %d, maxFailures: %d; first %s with %s at %s: %s",
		len(nodes), p.MaxFailures, first.Node, first.DaemonSet, first.Revision, first.Message)
}

// HaltEnds is what lets a policy go on that failures halt.
func HaltEnds(policy string) string {
	return "another version lets it go on, or lamplighter resume " + policy
}

func firstFailure(nodes map[string]Failure) Failure {
	var first Failure
	for _, f := range nodes {
		if first.Node == "" || f.At.Before(first.At) || (f.At.Equal(first.At) && compareFailures(f, first) < 0) {
			first = f
		}
	}
	return first
}

func lists(p policy.UpgradePolicy, daemonSet string) bool {
	return slices.ContainsFunc(p.DaemonSets, func(n types.NamespacedName) bool { return n.String() == daemonSet })
}

// revision of one of the policy's DaemonSets; "" when it does not exist.
func (t *tour) revision(daemonSet string) string {
	for _, set := range t.sets {
		if d := t.fleet.sets[set]; d.key == daemonSet {
			return d.Revision
		}
	}
	return ""
}

// unproven says why a DaemonSet must not be evicted on one more node: until one
// visit has settled on its revision, only as many nodes try it as may fail.
func (t *tour) unproven(s *stop) string {
	d := s.set
	if t.book.ledger.Governed[d.key].Proven == d.Revision {
		return ""
	}
	tries, may := t.trials[d.key], t.policy.MaxFailures+1+t.amnesty[d.key]
	if s.visit.preparing() || (s.step != nil && s.step.Settled.IsZero() && s.step.To == d.Revision) {
		tries-- // its own
	}
	if tries < may {
		return ""
	}
	return d.unproven.of([2]int{tries, may}, func() string {
		return fmt.Sprintf("no visit has settled on %s of %s yet: %d of %d nodes try it first", d.Revision, d.key, tries, may) + t.stuck.see(tries+1)
	})
}

// sentence is one that is said of many nodes in a row and made once.
type sentence[K comparable] struct {
	about K
	text  string
}

// counted is a sentence about two numbers.
type counted = sentence[[2]int]

func (s *sentence[K]) of(about K, say func() string) string {
	if s.text == "" || s.about != about {
		*s = sentence[K]{about, say()}
	}
	return s.text
}
