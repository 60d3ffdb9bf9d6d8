// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"lamplighter.dev/reconcile/policy"
)

// handover puts the ledger in line with what exists: a visit to a node that is
// gone ends at once and frees its slot; a DaemonSet that has another policy now
// takes its visits and failures along, so that renaming a policy does not give
// it a fresh budget; what belongs to nothing ends.
func (b *book) handover(f *fleet, policies []policy.UpgradePolicy) {
	policyOf := map[string]string{}
	for _, p := range policies {
		for _, name := range p.DaemonSets {
			if set, ok := f.bySet[name]; ok {
				policyOf[f.sets[set].key] = p.Name
			}
		}
	}
	for _, v := range b.visits() {
		open := b.open[visitKey{v.Policy, v.Node}]
		if _, ok := f.byNode[v.Node]; !ok {
			b.end(open, NodeGone, f.now)
			continue
		}
		moved := b.moveSteps(open, policyOf)
		switch {
		case len(open.Steps) > 0:
		case moved:
			b.withdraw(open)
		default:
			open.Steps = v.Steps
			b.end(open, Released, f.now)
		}
	}
	b.keepFailures(f, policyOf)
	b.keepRefusals(f, policyOf)
	names := map[string]bool{}
	for _, p := range policies {
		names[p.Name] = true
	}
	b.ledger.Pauses = slices.DeleteFunc(b.ledger.Pauses, func(p Pause) bool { return !names[p.Policy] })
}

// moveSteps leaves in a visit only the steps of its own policy. It says whether
// another policy has taken one over.
func (b *book) moveSteps(v *Visit, policyOf map[string]string) (moved bool) {
	v.Steps = slices.DeleteFunc(slices.Clone(v.Steps), func(s Step) bool {
		to, governed := policyOf[s.DaemonSet]
		if !governed || to == v.Policy {
			return !governed
		}
		moved = true
		heir := b.open[visitKey{to, v.Node}]
		if heir == nil {
			heir = b.begin(Visit{Policy: to, Node: v.Node, Commit: v.Commit, Started: v.Started})
		}
		if heir.step(s.DaemonSet) == nil {
			heir.Steps = append(heir.Steps, s)
		}
		return true
	})
	return moved
}

// keepFailures drops those of revisions that are no longer in force.
func (b *book) keepFailures(f *fleet, policyOf map[string]string) {
	revisions := map[string]string{}
	for _, d := range f.sets {
		if d.RevisionObserved {
			revisions[d.key] = d.Revision
		}
	}
	b.failed = map[Failure]int{}
	var kept []Failure
	for _, failure := range b.ledger.Failures {
		to, governed := policyOf[failure.DaemonSet]
		current, observed := revisions[failure.DaemonSet]
		if !governed || (observed && current != failure.Revision) {
			continue
		}
		failure.Policy = to
		b.failed[failure.key()] = len(kept)
		kept = append(kept, failure)
	}
	b.ledger.Failures = kept
}

// keepRefusals drops those of pods that are gone or going.
func (b *book) keepRefusals(f *fleet, policyOf map[string]string) {
	if len(b.ledger.Refusals) == 0 {
		return
	}
	refused := map[Refusal]bool{}
	for _, r := range b.ledger.Refusals {
		refused[Refusal{Node: r.Node, Pod: r.Pod}] = false
	}
	for i := range f.pods {
		key := Refusal{Node: f.pods[i].Node, Pod: f.pods[i].UID}
		if _, ok := refused[key]; ok {
			refused[key] = !f.pods[i].Deleting
		}
	}
	b.ledger.Refusals = slices.DeleteFunc(b.ledger.Refusals, func(r Refusal) bool {
		return policyOf[r.DaemonSet] != r.Policy || !refused[Refusal{Node: r.Node, Pod: r.Pod}]
	})
}
