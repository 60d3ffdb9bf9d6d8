// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lamplighter.dev/reconcile/policy"
)

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// timeless is a plan without what a later look at the same cluster changes:
// instants that are now or then, and the forecast that counts from it.
func timeless(p Plan, now, later time.Time) Plan {
	p.Ledger = p.Ledger.clone()
	p.Ledger.Finished = slices.Clone(p.Ledger.Finished)
	zero := func(t *time.Time) {
		if t.Equal(now) || t.Equal(later) {
			*t = time.Time{}
		}
	}
	p.Decisions = slices.Clone(p.Decisions)
	for i := range p.Decisions { // what runs from now ends later
		d := &p.Decisions[i]
		if slices.ContainsFunc(p.Ledger.Visits, func(v Visit) bool {
			return v.Policy == d.Policy && v.Node == d.Node &&
				slices.ContainsFunc(v.Steps, func(s Step) bool { return s.Evicted.Equal(now) || s.Evicted.Equal(later) })
		}) {
			d.change(func(r *Ruling) { r.Until = time.Time{} })
			if d.Pod != nil {
				pod := *d.Pod
				pod.SendBefore = time.Time{}
				d.Pod = &pod
			}
		}
	}
	for _, visits := range [][]Visit{p.Ledger.Visits, p.Ledger.Finished} {
		for i := range visits {
			zero(&visits[i].Started)
			zero(&visits[i].Finished)
			zero(&visits[i].Drain.Since)
			visits[i].Drain.Decided, visits[i].Drain.Term = time.Time{}, 0 // renewed by whoever goes on with it
			visits[i].Jobs = slices.Clone(visits[i].Jobs)
			for j := range visits[i].Jobs {
				zero(&visits[i].Jobs[j].Started)
				zero(&visits[i].Jobs[j].Ended)
			}
			visits[i].Steps = slices.Clone(visits[i].Steps)
			for j := range visits[i].Steps {
				zero(&visits[i].Steps[j].Evicted)
				zero(&visits[i].Steps[j].Gone)
			}
		}
	}
	for i := range p.Ledger.Failures {
		zero(&p.Ledger.Failures[i].At)
	}
	for name, g := range p.Ledger.Governed {
		zero(&g.Since)
		zero(&g.Before)
		p.Ledger.Governed[name] = g
	}
	for i := range p.Ledger.Reversals {
		zero(&p.Ledger.Reversals[i].Since)
	}
	for i := range p.Ledger.Refusals {
		zero(&p.Ledger.Refusals[i].At)
	}
	p.Policies = slices.Clone(p.Policies)
	for i := range p.Policies {
		p.Policies[i].Never = ""
	}
	p.NextLook = time.Time{}
	return p
}

func diffPlans(a, b Plan) string {
	if reflect.DeepEqual(a, b) {
		return "" // much cheaper than looking for differences
	}
	return cmp.Diff(a, b, cmpopts.EquateEmpty())
}

// checkConstant holds a plan against those of later instants up to NextLook.
func checkConstant(t reporter, s *scene, plan Plan) {
	t.Helper()
	checkConstantOf(t, s.observed, s.policies, s.now, plan)
}

func checkConstantOf(t reporter, obs Observed, policies []policy.UpgradePolicy, now time.Time, plan Plan) {
	t.Helper()
	obs.Ledger.Term = plan.Ledger.Term // it has begun by then
	obs.Ledger.Visits = seenGone(obs.Ledger.Visits, plan.Ledger.Visits)
	until := plan.NextLook
	if until.IsZero() {
		until = now.Add(365 * day)
	}
	for _, at := range []time.Time{now.Add(until.Sub(now) / 2), until.Add(-1)} {
		if at.Equal(now) {
			continue
		}
		later := New(obs, policies, at)
		if diff := diffPlans(timeless(plan, now, at), timeless(later, now, at)); diff != "" {
			t.Errorf("the plan changes %s after now, before NextLook (-now +later):\n%s", at.Sub(now), diff)
		}
	}
}

// seenGone are the visits of before, with what a plan has put on record of when their
// nodes were without a pod.
func seenGone(visits, planned []Visit) []Visit {
	visits = cloneVisits(visits)
	for _, p := range planned {
		for i := range visits {
			if v := &visits[i]; v.Policy == p.Policy && v.Node == p.Node {
				for j := range v.Steps {
					if s := p.step(v.Steps[j].DaemonSet); s != nil && s.To == v.Steps[j].To {
						v.Steps[j].Gone = s.Gone
					}
				}
			}
		}
	}
	return visits
}

// checkShuffled wants the same plan from the same input in another order, and the
// ledger that it is made from as it was.
func checkShuffled(t reporter, s *scene, plan Plan) {
	t.Helper()
	checkShuffledOf(t, s.observed, s.policies, s.now, plan)
}

func checkShuffledOf(t reporter, obs Observed, policies []policy.UpgradePolicy, now time.Time, plan Plan) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(len(obs.Pods))))
	obs.Nodes, obs.Pods, obs.DaemonSets = slices.Clone(obs.Nodes), slices.Clone(obs.Pods), slices.Clone(obs.DaemonSets)
	policies = slices.Clone(policies)
	r.Shuffle(len(obs.Nodes), func(i, j int) { obs.Nodes[i], obs.Nodes[j] = obs.Nodes[j], obs.Nodes[i] })
	r.Shuffle(len(obs.Pods), func(i, j int) { obs.Pods[i], obs.Pods[j] = obs.Pods[j], obs.Pods[i] })
	r.Shuffle(len(obs.DaemonSets), func(i, j int) {
		obs.DaemonSets[i], obs.DaemonSets[j] = obs.DaemonSets[j], obs.DaemonSets[i]
	})
	r.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
	before, err := json.Marshal(obs.Ledger)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if diff := diffPlans(plan, New(obs, policies, now)); diff != "" {
		t.Errorf("the order of the input changes the plan (-sorted +shuffled):\n%s", diff)
	}
	after, err := json.Marshal(obs.Ledger)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("a plan changes the ledger that it is made from:\n%s", cmp.Diff(string(before), string(after)))
	}
}
