// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// handover puts the ledger in line with what exists: a visit to a node that is
// gone ends at once and frees its slot; a DaemonSet that has another policy now
// takes its visits and failures along, so that renaming a policy does not give
// it a fresh budget; what belongs to nothing ends. A policy that is gone may come
// back with the next commit, so its visits stay open while their nodes are down
// by our doing.
func (b *book) handover(f *fleet, policies []policy.UpgradePolicy, a *alarm) {
	policyOf, names := map[string]string{}, map[string]bool{}
	for _, p := range policies {
		names[p.Name] = true
		for _, name := range p.DaemonSets {
			if set, ok := f.bySet[name]; ok {
				policyOf[f.sets[set].key] = p.Name
			}
		}
	}
	b.policies = names
	for _, v := range b.visits() {
		open := b.open[visitKey{v.Policy, v.Node}]
		if f.gone(v) {
			b.end(open, NodeGone, f.now)
			continue
		}
		if b.dropJobs(open, f.gatesFor(v, policies)); v.preparing() && !open.preparing() {
			b.withdraw(open)
			continue
		}
		moved := b.moveSteps(open, policyOf, func(s Step) bool { return !names[v.Policy] && f.downSince(s, v.Node, a) })
		switch {
		case len(open.Steps) > 0, names[v.Policy] && v.preparing():
		case f.drainDoubtful(&v):
			a.at(f.drainCertain(v.Drain))
		case moved:
			b.withdraw(open)
		default:
			open.Steps = v.Steps
			b.end(open, Released, f.now)
		}
	}
	b.keepFailures(f, policyOf)
	b.keepRefusals(f, policyOf)
	b.keepReversals(f, policyOf)
	b.keepObjections(f, policies)
	b.ledger.Pauses = slices.DeleteFunc(b.ledger.Pauses, func(p Pause) bool { return !names[p.Policy] })
	b.keepProceeds(names, f.now, a)
}

// gone says that the node of a visit is, or that there is another one of its name.
// Clocks may differ, so one that has come a moment after the visit began is the same.
func (f *fleet) gone(v Visit) bool {
	i, exists := f.byNode[v.Node]
	return !exists || f.nodes[i].Created.After(v.Started.Add(doubt))
}

// moveSteps leaves in a visit only the steps of its own policy, and those of none
// that are to be kept. It says whether another policy has taken one over.
func (b *book) moveSteps(v *Visit, policyOf map[string]string, keep func(Step) bool) (moved bool) {
	v.Steps = slices.DeleteFunc(slices.Clone(v.Steps), func(s Step) bool {
		to, governed := policyOf[s.DaemonSet]
		if !governed {
			return !keep(s)
		}
		if to == v.Policy {
			return false
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

// downSince says that a step has left its node without an available pod, or may
// be about to. The limits of its policy are not known any more.
func (f *fleet) downSince(s Step, node string, a *alarm) bool {
	set := slices.IndexFunc(f.sets, func(d *daemonSet) bool { return d.key == s.DaemonSet })
	if set < 0 || !s.Settled.IsZero() {
		return false
	}
	i, d := f.byNode[node], f.sets[set]
	if p := d.placer.On(f.nodes[i]); !p.ShouldContinue || (!p.ShouldRun && f.nodes[i].Ready) {
		return false // the taint of a node that is not Ready goes with it
	}
	var limits health.Limits
	for _, p := range f.podsOf(i, set, nil) {
		if f.mayBeOn(&s, p) {
			a.at(f.certain(&s))
			continue
		}
		if limits.Available(d.DaemonSet, p, f.now) {
			return false
		}
		if p.Ready && !p.Deleting {
			a.at(limits.AvailableAt(d.DaemonSet, p))
		}
	}
	return true
}

// keepFailures drops those of revisions that are no longer in force.
func (b *book) keepFailures(f *fleet, policyOf map[string]string) {
	revisions, exists := map[string]string{}, map[string]bool{}
	for _, d := range f.sets {
		exists[d.key] = true
		if d.RevisionObserved {
			revisions[d.key] = d.Revision
		}
	}
	b.failed = map[Failure]int{}
	var kept []Failure
	for _, failure := range b.ledger.Failures {
		current, observed := revisions[failure.DaemonSet]
		if !exists[failure.DaemonSet] || (observed && current != failure.Revision) {
			continue
		}
		if to, governed := policyOf[failure.DaemonSet]; governed {
			failure.Policy = to
		}
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
	for _, p := range f.pods {
		key := Refusal{Node: p.Node, Pod: p.UID}
		if _, ok := refused[key]; ok {
			refused[key] = !p.Deleting
		}
	}
	b.ledger.Refusals = slices.DeleteFunc(b.ledger.Refusals, func(r Refusal) bool {
		return policyOf[r.DaemonSet] != r.Policy || !refused[Refusal{Node: r.Node, Pod: r.Pod}]
	})
}
