// SPDX-License-Identifier: Apache-2.0

package rollout

import "lamplighter.dev/reconcile/health"

// adopt makes up for a ledger that was lost. Which nodes we visited is not
// known, so each that is Ready and not settled is taken for one, as long as its
// DaemonSet is still being rolled out. At worst that is too many, and fewer
// visits start until those nodes have settled. What goes within a minute of the loss
// was on its way.
func (t *tour) adopt() {
	place := make(map[*daemonSet]int, len(t.sets))
	for i, set := range t.sets {
		place[t.fleet.sets[set]] = i
	}
	for i := range t.stops {
		s := &t.stops[i]
		if s.set == nil || s.visit != nil || t.outdated[place[s.set]] == 0 {
			continue
		}
		step := Step{DaemonSet: s.set.key, To: s.set.Revision, Evicted: t.now, Term: t.term.Number}
		switch s.state {
		case health.Settling, health.Failed:
			step.Evicted, step.Replaced = s.pod.Created, s.pod.Created
		case health.Replacing, health.Stuck, health.Missing:
		default:
			continue
		}
		s.visit = t.book.begin(Visit{
			Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now, Steps: []Step{step},
		})
		s.step, s.begun = &s.visit.Steps[0], true
		s.underWay++
	}
}
