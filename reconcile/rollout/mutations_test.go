// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// A mutation is a fault that a planner could have. It changes what New has
// planned from what it was given.
type mutation struct {
	invariant string // that it breaks
	fault     string
	mutate    func(obs Observed, policies []policy.UpgradePolicy, now time.Time, p *Plan)
}

// mutations say what each invariant is worth: a planner with the fault is found out
// by the model, under the name of the invariant that it breaks.
var mutations = []mutation{
	{"I1", "evicts while the window is shut", insteadOf(WindowShut)},
	{"I1", "evicts while a freeze is in force", insteadOf(Frozen)},
	{"I1", "evicts by a clock that is not to be trusted", insteadOf(ClockUntrusted)},
	{"I2", "starts one visit more than there are slots", insteadOf(BudgetSpent)},
	{"I2", "evicts before the visit is on record", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Ledger.Visits = obs.Ledger.Visits
	}},
	{"I3", "starts a visit that will not end in time", insteadOf(TooLateToStart)},
	{"I4", "evicts on a node that another policy visits", insteadOf(NodeBusy)},
	{"I4", "starts in one domain too many", insteadOf(TopologyBusy)},
	{"I5", "visits a healthy node before a broken one", healthyFirst},
	{"I6", "evicts on a node that is held", insteadOf(NodeHeld)},
	{"I6", "evicts for a DaemonSet that is held", insteadOf(DaemonSetHeld)},
	{"I6", "evicts on a node that is not Ready", insteadOf(NodeNotReady)},
	{"I6", "evicts on a cordoned node", insteadOf(NodeCordoned)},
	{"I6", "evicts where others are at work", insteadOf(NodeMaintenance)},
	{"I6", "evicts for a revision that is not observed", insteadOf(RevisionNotObserved)},
	{"I6", "evicts what would not return", insteadOf(WouldNotReturn)},
	{"I6", "evicts what has no room to return", insteadOf(NoRoom)},
	{"I6", "evicts a pod of before", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for i := range p.Decisions {
			if e := p.Decisions[i].Pod; e != nil {
				p.Decisions[i].Pod = &Eviction{Name: e.Name, UID: "gone", ResourceVersion: e.ResourceVersion}
			}
		}
	}},
	{"I7", "goes on when too many have failed", insteadOf(Halted)},
	{"I7", "forgets failures", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) { p.Ledger.Failures = nil }},
	{"I8", "keeps the slot of a node that is gone", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for _, v := range obs.Ledger.Visits {
			if !slices.ContainsFunc(obs.Nodes, func(n health.Node) bool { return n.Name == v.Node }) {
				p.Ledger.Visits = append(p.Ledger.Visits, v)
			}
		}
	}},
	{"I8", "holds everything while a node has a strange taint", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		if slices.ContainsFunc(obs.Nodes, func(n health.Node) bool { return n.Name == strangeNode.Name }) {
			for i := range p.Decisions {
				p.Decisions[i].change(func(r *Ruling) { r.Reason = Halted })
			}
		}
	}},
	{"I9", "decides by the order of the nodes", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for i := range p.Decisions {
			if d := &p.Decisions[i]; d.Reason == UpToDate && d.Node == obs.Nodes[0].Name {
				d.change(func(r *Ruling) { r.Message = "first" })
			}
		}
	}},
	{"I9", "decides twice about a node", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Decisions = append(p.Decisions, p.Decisions[:min(1, len(p.Decisions))]...)
	}},
	{"I10", "never starts the last node", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		last := slices.MaxFunc(obs.Nodes, func(a, b health.Node) int { return strings.Compare(a.Name, b.Name) }).Name
		for i := range p.Decisions {
			if d := &p.Decisions[i]; d.Node == last && d.Action == Evict {
				d.holdFor(BudgetSpent)
				p.Ledger.Visits = slices.DeleteFunc(slices.Clone(p.Ledger.Visits), func(v Visit) bool { return v.Node == last && v.Policy == d.Policy })
			}
		}
	}},
	{"I11", "starts in a wave too early", insteadOf(WaveWaiting)},
	{"I11", "does not let a wave soak", insteadOf(Soaking)},
	{"I12", "starts while a gate is shut", insteadOf(GateShut)},
	{"I12", "starts before it knows what a gate says", insteadOf(Checking)},
	{"I12", "does not wait for a Job", insteadOf(JobRunning)},
	{"I12", "lets it pass that a Job has failed", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Ledger.Failures = slices.DeleteFunc(slices.Clone(p.Ledger.Failures), func(f Failure) bool { return f.Gate != "" })
	}},
	{"I12", "counts a Job that has failed for each DaemonSet of the visit", chargeTwice},
	{"I12", "runs a second Job for the same gate", jobTwice},
	{"I13", "evicts on a node that is not empty", insteadOf(Draining)},
	{"I13", "gives nodes back only while windows are open", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		if slices.ContainsFunc(p.Policies, func(s PolicyStatus) bool { return !s.Window.Open }) {
			p.Uncordons = nil
		}
	}},
	{"I13", "keeps the cordon of a drain that has failed", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Uncordons = slices.DeleteFunc(slices.Clone(p.Uncordons), func(u Uncordon) bool {
			return slices.ContainsFunc(p.Ledger.Refusals, func(r Refusal) bool { return r.Drain && r.Node == u.Node && r.Policy == u.Policy })
		})
	}},
	{"I13", "gives a node back while it is visited", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Uncordons = slices.Clone(p.Uncordons)
		for _, n := range obs.Nodes {
			if name, ours := strings.CutPrefix(n.CordonedBy, CordonMark(obs.Instance, "")); ours && n.Unschedulable && n.CordonTakenBy == "" {
				p.Uncordons = append(p.Uncordons, Uncordon{Node: n.Name, Policy: name})
			}
		}
	}},
	{"I13", "takes off the cordon of somebody else", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		p.Uncordons = slices.Clone(p.Uncordons)
		for i := range p.Uncordons {
			p.Uncordons[i].MarkOnly = false
		}
	}},
	{"I13", "drains without end", drainOn},
	{"I2", "drains a node more than there are slots", drainToo},
	{"I2", "frees the slot of a node that an earlier leader may still drain", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for i := range p.Decisions {
			d := &p.Decisions[i]
			p.Ledger.Visits = slices.DeleteFunc(slices.Clone(p.Ledger.Visits), func(v Visit) bool {
				earlier := !v.Drain.Since.IsZero() && v.Drain.Term != p.Ledger.Term.Number
				return d.Action == Hold && d.Policy == v.Policy && d.Node == v.Node && len(v.Steps) == 0 && earlier
			})
		}
	}},
	{"I14", "goes back for a policy that is to halt", goBackIf(func(p policy.UpgradePolicy, failed int) bool {
		return p.OnFailure == policy.Halt && failed > p.MaxFailures
	})},
	{"I14", "goes back before enough nodes have failed", goBackIf(func(p policy.UpgradePolicy, failed int) bool {
		return p.OnFailure == policy.Revert && failed > 0 && failed <= p.MaxFailures
	})},
	{"I14", "takes what some nodes have settled on for what all have", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for _, d := range obs.DaemonSets {
			if g, known := p.Ledger.Governed[d.Name.String()]; known && g.Proven == d.Revision {
				g.Settled = d.Revision
				p.Ledger.Governed[d.Name.String()] = g
			}
		}
	}},
	{"I14", "goes back to the revision before, whatever came of it", func(obs Observed, _ []policy.UpgradePolicy, now time.Time, p *Plan) {
		p.Ledger.Reversals = slices.Clone(p.Ledger.Reversals)
		for i := range p.Ledger.Reversals {
			r := &p.Ledger.Reversals[i]
			set := slices.IndexFunc(obs.DaemonSets, func(d health.DaemonSet) bool { return d.Name.String() == r.DaemonSet })
			if kept := obs.DaemonSets[set].History; r.Since.Equal(now) && len(kept) > 2 {
				r.To = kept[len(kept)-2].Hash
			}
		}
	}},
	{"I14", "forgets what is marked bad while Git cannot be read", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		if len(obs.Rendered) == 0 {
			p.Ledger.Reversals = nil
		}
	}},
	{"I14", "takes the mark off when the template is back", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for _, d := range obs.DaemonSets {
			p.Ledger.Reversals = slices.DeleteFunc(slices.Clone(p.Ledger.Reversals), func(r Reversal) bool {
				return r.DaemonSet == d.Name.String() && r.To == d.Revision
			})
		}
	}},
	{"I14", "keeps the mark when Git has another template", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for _, r := range obs.Ledger.Reversals {
			if p.Ledger.reversal(r.DaemonSet) == nil {
				p.Ledger.Reversals = append(slices.Clone(p.Ledger.Reversals), r)
			}
		}
	}},
	{"I14", "goes back again to where it is", func(obs Observed, _ []policy.UpgradePolicy, now time.Time, p *Plan) {
		p.Ledger.Reversals = slices.Clone(p.Ledger.Reversals)
		for i := range p.Ledger.Reversals {
			if r := &p.Ledger.Reversals[i]; obs.Ledger.reversal(r.DaemonSet) != nil && now.After(r.Since.Add(time.Hour)) {
				r.Since = now
			}
		}
	}},
	{"I14", "visits nodes before the template is back", func(obs Observed, _ []policy.UpgradePolicy, now time.Time, p *Plan) {
		for i := range p.Decisions {
			if d := &p.Decisions[i]; p.Ledger.reversal(d.DaemonSet.String()) != nil && (d.Reason == Halted || d.Reason == RevisionNotObserved) {
				force(obs, now, p, d)
			}
		}
	}},
	{"I14", "restarts what is on the revision to go back to", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for i := range p.Decisions {
			d := &p.Decisions[i]
			r := p.Ledger.reversal(d.DaemonSet.String())
			at := slices.IndexFunc(obs.Pods, func(o *health.Pod) bool { return r != nil && o.Node == d.Node && o.Hash == r.To })
			if d.Reason == UpToDate && at >= 0 {
				d.change(func(r *Ruling) { r.Action, r.Reason = Evict, Start })
				d.Pod = &Eviction{Name: obs.Pods[at].Name, UID: obs.Pods[at].UID, ResourceVersion: obs.Pods[at].ResourceVersion}
			}
		}
	}},
	{"I10", "visits no node that is to go back", func(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		for i := range p.Decisions {
			if d := &p.Decisions[i]; d.Action == Evict && p.Ledger.reversal(d.DaemonSet.String()) != nil {
				d.holdFor(BudgetSpent)
				p.Ledger.Visits = slices.DeleteFunc(slices.Clone(p.Ledger.Visits), func(v Visit) bool { return v.Node == d.Node && v.Policy == d.Policy })
			}
		}
	}},
	{"I10", "only halts, and never goes back", func(obs Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
		begun := func(r Reversal) bool { return obs.Ledger.reversal(r.DaemonSet) == nil }
		if slices.ContainsFunc(p.Ledger.Reversals, begun) {
			p.Ledger.Reversals, p.NextLook = slices.DeleteFunc(slices.Clone(p.Ledger.Reversals), begun), time.Time{}
		}
	}},
}

// change gives a decision a ruling of its own.
func (d *Decision) change(to func(*Ruling)) {
	own := *d.Ruling
	to(&own)
	d.Ruling = &own
}

func (d *Decision) holdFor(reason Reason) {
	d.change(func(r *Ruling) { r.Action, r.Reason = Hold, reason })
	d.Pod = nil
}

// insteadOf evicts where a planner without fault holds for the reason, with a visit
// on record as it should be.
func insteadOf(reason Reason) func(Observed, []policy.UpgradePolicy, time.Time, *Plan) {
	return func(obs Observed, _ []policy.UpgradePolicy, now time.Time, p *Plan) {
		for i := range p.Decisions {
			if d := &p.Decisions[i]; d.Reason == reason {
				force(obs, now, p, d)
			}
		}
	}
}

func force(obs Observed, now time.Time, p *Plan, d *Decision) {
	for _, set := range obs.DaemonSets {
		for _, pod := range obs.Pods {
			if set.Name != d.DaemonSet || pod.Owner != set.UID || pod.Node != d.Node || pod.Hash == set.Revision || pod.Deleting {
				continue
			}
			d.change(func(r *Ruling) { r.Action, r.Reason, r.Drain, r.CordonedToo = Evict, Start, nil, false })
			d.Pod = &Eviction{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
			step := Step{DaemonSet: d.DaemonSet.String(), From: pod.Hash, To: set.Revision, Pod: pod.UID, Evicted: now}
			visits := cloneVisits(p.Ledger.Visits)
			at := slices.IndexFunc(visits, func(v Visit) bool { return v.Policy == d.Policy && v.Node == d.Node })
			if at < 0 {
				at, visits = len(visits), append(visits, Visit{Policy: d.Policy, Node: d.Node, Started: now})
			}
			v := &visits[at]
			v.Steps = append(slices.DeleteFunc(v.Steps, func(s Step) bool { return s.DaemonSet == step.DaemonSet }), step)
			slices.SortFunc(visits, compareVisits)
			p.Ledger.Visits = visits
			for i := range p.Policies { // as the plan would have counted it
				if s := &p.Policies[i]; s.Name == d.Policy {
					s.OutOfService++
					s.Waves = slices.Clone(s.Waves)
					for j := range s.Waves {
						s.Waves[j].OutOfService += one(s.Waves[j].Name == d.Wave)
					}
				}
			}
			return
		}
	}
}

// chargeTwice records each failure of a Job a second time.
func chargeTwice(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
	for _, f := range p.Ledger.Failures {
		if f.Gate != "" {
			f.Revision += "again"
			p.Ledger.Failures = append(slices.Clone(p.Ledger.Failures), f)
			return
		}
	}
}

// jobTwice runs another Job beside one that runs.
func jobTwice(_ Observed, _ []policy.UpgradePolicy, _ time.Time, p *Plan) {
	visits := cloneVisits(p.Ledger.Visits)
	for i := range visits {
		v := &visits[i]
		for _, r := range v.Jobs {
			if r.Ended.IsZero() {
				again := JobRun{Gate: r.Gate, Name: r.Name + "-again", Started: r.Started}
				v.Jobs = append(v.Jobs, again)
				p.Jobs = append(slices.Clone(p.Jobs), Job{Name: again.Name, Policy: v.Policy, Node: v.Node})
				p.Ledger.Visits = visits
				return
			}
		}
	}
}

// goBackIf begins a reversal where a DaemonSet has failed, and not just where it may.
func goBackIf(may func(p policy.UpgradePolicy, failed int) bool) func(Observed, []policy.UpgradePolicy, time.Time, *Plan) {
	return func(obs Observed, policies []policy.UpgradePolicy, now time.Time, p *Plan) {
		for _, f := range p.Ledger.Failures {
			at := slices.IndexFunc(policies, func(o policy.UpgradePolicy) bool { return o.Name == f.Policy })
			to := p.Ledger.Governed[f.DaemonSet].Settled
			if at < 0 || f.Acknowledged || to == "" || to == f.Revision || p.Ledger.reversal(f.DaemonSet) != nil {
				continue
			}
			failed := 0
			for _, o := range p.Ledger.Failures {
				failed += one(o.Policy == f.Policy && !o.Acknowledged)
			}
			if may(policies[at], failed) {
				p.Ledger.Reversals = append(slices.Clone(p.Ledger.Reversals), Reversal{
					Policy: f.Policy, DaemonSet: f.DaemonSet, Template: gitTemplate{revision: f.Revision}.digest(), From: f.Revision, To: to, Since: now,
				})
				return
			}
		}
	}
}

// drainOn goes on with drains that are given up.
func drainOn(obs Observed, policies []policy.UpgradePolicy, _ time.Time, p *Plan) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		v := obs.Ledger.visitOf(d)
		if d.Reason != DrainFailed || v == nil || v.Drain.Since.IsZero() {
			continue
		}
		at := slices.IndexFunc(policies, func(o policy.UpgradePolicy) bool { return o.Name == d.Policy })
		d.change(func(r *Ruling) { r.Action, r.Reason, r.Drain = Drain, Draining, policies[at].Drain })
		d.Pod = &Eviction{}
		p.Ledger.Visits = append(slices.Clone(p.Ledger.Visits), *v)
	}
}

// drainToo begins with a node that has to wait for a slot.
func drainToo(_ Observed, policies []policy.UpgradePolicy, now time.Time, p *Plan) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		at := slices.IndexFunc(policies, func(o policy.UpgradePolicy) bool { return o.Name == d.Policy })
		if d.Reason != BudgetSpent || policies[at].Drain == nil || p.Ledger.visitOf(d) != nil {
			continue
		}
		d.change(func(r *Ruling) { r.Action, r.Reason, r.Drain = Drain, Draining, policies[at].Drain })
		d.Pod = &Eviction{}
		p.Ledger.Visits = append(slices.Clone(p.Ledger.Visits), Visit{Policy: d.Policy, Node: d.Node, Started: now, Drain: Drainage{Since: now}})
		slices.SortFunc(p.Ledger.Visits, compareVisits)
		return
	}
}

// healthyFirst lets a node that is down and starts change places with one that is
// up and waits.
func healthyFirst(obs Observed, _ []policy.UpgradePolicy, now time.Time, p *Plan) {
	for i := range p.Decisions {
		broken := &p.Decisions[i]
		if broken.Action != Evict || broken.State != health.OutdatedDown || obs.Ledger.visitOf(broken) != nil {
			continue
		}
		for j := range p.Decisions {
			d := &p.Decisions[j]
			if d.Policy == broken.Policy && d.DaemonSet == broken.DaemonSet && d.Wave == broken.Wave && d.Reason == BudgetSpent && d.State == health.Outdated {
				p.Ledger.Visits = slices.DeleteFunc(slices.Clone(p.Ledger.Visits), func(v Visit) bool { return v.Policy == broken.Policy && v.Node == broken.Node })
				broken.holdFor(BudgetSpent)
				force(obs, now, p, d)
				return
			}
		}
	}
}

// Each fault is found out, under the name of its invariant. How many steps that
// takes is what the model is worth.
func TestMutations(t *testing.T) {
	const patience = 40_000
	for i, mut := range mutations {
		if raceDetector && i%9 != 0 {
			continue // make test runs all of them without it
		}
		t.Run(mut.invariant+" "+mut.fault, func(t *testing.T) {
			t.Parallel()
			faulty := func(obs Observed, policies []policy.UpgradePolicy, now time.Time) Plan {
				p := New(obs, policies, now)
				if len(obs.Nodes) > 0 {
					mut.mutate(obs, policies, now, &p)
				}
				return p
			}
			steps := 0
			for run := uint64(1); steps < patience; run++ {
				m := newModel(*modelSeed, run, faulty)
				m.run()
				steps += m.steps
				if slices.ContainsFunc(m.failures, func(f string) bool { return strings.HasPrefix(f, mut.invariant+":") }) {
					t.Logf("%s found out in run %d, after %d steps", mut.fault, run, steps)
					return
				}
			}
			t.Errorf("not found out within %d steps", steps)
		})
	}
}
