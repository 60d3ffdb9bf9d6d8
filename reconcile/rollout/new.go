// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// New decides for every node of every policy, at the instant now. Whatever was
// observed, these hold:
//
//   - I1 No pod is evicted on a node for which the policy's window is shut, or a
//     freeze is in force: not the first of a visit, nor the next one, nor a
//     retry. Nothing else waits for a window.
//   - I2 A policy never has more open visits in a wave than the wave's
//     maxUnavailable when it starts one there, nor more in all than that or its
//     own maxUnavailable, whichever is more. A visit is open from before its
//     first eviction until its last pod has settled, whatever happens to the
//     node. Nodes that were down before are not charged; a visit to one of them
//     needs a slot like any other.
//   - I3 A visit starts only if it can be expected to end before its window does.
//   - I4 A node is worked on by one policy at a time. A policy starts no visit in
//     one more domain of its topology than may be visited at once.
//   - I5 Open visits come first, broken ones before others: a new revision retries
//     them before it starts any. Then come nodes that are down.
//   - I6 No eviction unless the revision is known and of the newest template, the
//     DaemonSet leaves its pods to us and should run on the node, the node is
//     Ready, not held, not cordoned and not being deleted, nobody else is at work
//     on it, no pod of the DaemonSet there is on its way already, and the new pod
//     fits.
//   - I7 With more than maxFailures failed nodes the policy evicts nothing, until
//     the revision changes or the failures are acknowledged.
//   - I8 What is wrong with one node, pod or policy changes no decision about
//     another except by the slots that it holds; a node that is gone holds none.
//   - I9 The order of the input does not matter, and every node of every policy
//     gets exactly one decision.
//   - I10 While windows open again and nodes come up, repeated plans come to an
//     end at which every node is settled.
//   - I11 No pod is evicted on a node in a wave while an earlier wave is not
//     settled, or soaks, unless the node is down by our doing or goes back to a
//     revision on which all had settled.
//   - I12 No visit starts while a gate is shut, or what it says is not known. No pod
//     is evicted, and no node drained, in a visit before the Jobs that run before it
//     have succeeded; and none ends as settled before those that run after it have.
//     One of those that fails is one failure. A visit runs one Job for a gate.
//   - I13 No node is drained while the window is shut, or for longer than the drain
//     may take; none of a policy that drains is visited before it is drained. A node
//     that we have cordoned is given back when no visit needs it, at any time; the
//     cordon of somebody else is left alone.
//   - I14 A DaemonSet goes back only if its policy is to revert and is halted by
//     failures, of its revision too, and only to one on which all nodes had settled.
//     The template that failed stays marked, and it goes back no second time, until
//     Git has another one, the policy is resumed, the ledger is lost or the revision
//     to go back to is not kept. Meanwhile no pod of it is evicted before its template
//     is back, and none that is of that revision.
//
// What it has to know and was not told holds an eviction, and is a question of
// the plan.
//
// Until one visit has settled on a revision, at most maxFailures + 1 nodes try
// it, so that one that works nowhere breaks no more than it takes to halt.
func New(obs Observed, policies []policy.UpgradePolicy, now time.Time) Plan {
	policies = slices.Clone(policies)
	sortUnlessSorted(policies, func(a, b policy.UpgradePolicy) int { return strings.Compare(a.Name, b.Name) })

	f, b, a := newFleet(obs, now), newBook(obs.Ledger), &alarm{now: now}
	f.inquiry = newInquiry(obs, a)
	f.weighLoss(b.lost, policies, a)
	b.handover(f, policies, a)
	b.begins(f)
	plan := Plan{Decisions: make([]Decision, 0, min(len(obs.Nodes)*len(policies), len(obs.Pods)))}
	tours := make([]*tour, len(policies))
	for i, p := range policies {
		tours[i] = newTour(f, p, b, a, &plan.Decisions)
		tours[i].survey() // closes the visits that are over, so that their nodes are free for all
	}
	for _, t := range tours {
		t.judge()
		t.endWaiting()
		t.revert()
		t.hear()
		t.hearGates()
		t.restrain()
	}
	owners := f.owners(tours)
	for _, t := range tours {
		t.evictions(owners)
		plan.Policies = append(plan.Policies, t.status())
	}
	plan.Uncordons = b.uncordons(f, policies, a)
	plan.Jobs = b.newJobs()
	plan.Questions = f.inquiry.questions()
	plan.Ledger, plan.NextLook = b.close(f, policies), a.next
	return plan
}

// close is the next ledger.
func (b *book) close(f *fleet, policies []policy.UpgradePolicy) Ledger {
	l := b.ledger
	l.Visits = b.visits()
	if l.Term != (Term{}) {
		l.Term = f.term
	}
	l.Finished = trim(l.Finished)
	l.Refusals = trimRefusals(l.Refusals)
	slices.SortFunc(l.Failures, compareFailures)
	l.Waves = b.settledWaves()
	l.govern(f, policies)
	return l
}
