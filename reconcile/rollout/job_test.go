// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// jobName is that of the Job of a gate, written "NODE/GATE", as the planner names
// it with what the case has said so far.
func (s *scene) jobName(subject string) string {
	s.t.Helper()
	node, gate, _ := strings.Cut(subject, "/")
	f := newFleet(s.observed, s.now)
	for _, p := range s.policies {
		for _, g := range p.AllGates() {
			if g.Name == gate {
				t := newTour(f, p, newBook(s.observed.Ledger), &alarm{now: s.now}, nil)
				return t.jobOf(&stop{node: &health.Node{Name: node}}, g).Name
			}
		}
	}
	s.t.Fatalf("no policy has a gate %q", gate)
	return ""
}

// readJobRun reads "GATE:STARTED[/ENDED[/failed]]"; GATE may be "former GATE", of
// another revision.
func (s *scene) readJobRun(node, text string) JobRun {
	s.t.Helper()
	gate, ages, _ := strings.Cut(text, ":")
	gate, former := strings.CutPrefix(gate, "former-")
	parts := strings.Split(ages, "/")
	r := JobRun{Gate: gate, Name: "lamplighter-former", Started: s.now.Add(-age(s.t, parts[0]))}
	if !former {
		r.Name = s.jobName(node + "/" + gate)
	}
	if len(parts) > 1 {
		r.Ended = s.now.Add(-age(s.t, parts[1]))
	}
	if r.Failed = len(parts) > 2; r.Failed {
		r.Message = "Job " + r.Name + " failed"
	}
	return r
}

// A Job has one name for the same work and another for any other, and it fits
// into a label.
func TestJobsAreNamedAfterTheirWork(t *testing.T) {
	base := "policy cni cni gate=smoke:after:5m\ndaemonset cni new\nnode a cni=new\nnode b cni=new\n"
	long := strings.Repeat("x", 63)
	names := map[string]string{}
	for what, c := range map[string]struct{ text, subject string }{
		"the Job":          {base, "a/smoke"},
		"another node":     {base, "b/smoke"},
		"another revision": {strings.Replace(base, "cni new\n", "cni newer\n", 1), "a/smoke"},
		"another policy":   {strings.Replace(base, "policy cni", "policy net", 1), "a/smoke"},
		"another gate":     {strings.Replace(base, "smoke", "idle", 1), "a/idle"},
		"another end":      {strings.Replace(base, "after", "before", 1), "a/smoke"},
		"another attempt":  {strings.Replace(base, "after", "before", 1) + "refusal cni a cni old 1m\n", "a/smoke"},
		"one more attempt": {strings.Replace(base, "after", "before", 1) + "refusal cni a cni old 1m 2\n", "a/smoke"},
		"a long name":      {strings.Replace(base, "smoke", long, 1), "a/" + long},
	} {
		name := readScene(t, c.text).jobName(c.subject)
		if again := readScene(t, c.text).jobName(c.subject); again != name {
			t.Errorf("%s: %s the second time, %s the first", what, again, name)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%s and %s have one name, %s", what, other, name)
		}
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s: %q: %v", what, name, problems)
		}
		names[name] = what
	}
}

// From intent to result a Job has one name, whatever is forgotten in between, and
// is created only with a plan whose ledger has it.
func TestJobIsFoundAgainAfterEachCrash(t *testing.T) {
	s := readScene(t, "policy cni cni gate=idle:before:5m\ndaemonset cni new proven\nnode a cni=old\nasks\n")
	s.observed.Answers = Answers{}
	first := New(s.observed, s.policies, s.now)
	if len(first.Jobs) != 1 || len(first.Ledger.Visits) != 1 || first.Ledger.Visits[0].Jobs[0].Name != first.Jobs[0].Name {
		t.Fatalf("jobs %+v, visits %+v", first.Jobs, first.Ledger.Visits)
	}
	name := first.Jobs[0].Name
	q := Question{Kind: JobGate, Node: "a", Job: name}
	admission := Question{Kind: Admission, DaemonSet: nameOf("cni"), Revision: "new", Node: "a"}

	later := s.now.Add(time.Minute)
	for what, ledger := range map[string]Ledger{"remembered": reread(t, first.Ledger), "before it was saved": s.observed.Ledger, "lost": {}} {
		obs := s.observed
		obs.Ledger, obs.Answers = ledger, Answers{admission: {Reply: Yes, At: later}}
		again := New(obs, s.policies, later)
		for _, job := range again.Jobs {
			if job.Name != name {
				t.Errorf("%s: makes %s beside %s", what, job.Name, name)
			}
		}
		if len(again.Ledger.Visits) != 1 || again.Ledger.Visits[0].Jobs[0].Name != name {
			t.Errorf("%s: visits %+v, want one with Job %s", what, again.Ledger.Visits, name)
		}
		obs.Ledger = again.Ledger
		obs.Answers[q] = Answer{Reply: Yes, At: later.Add(time.Second)}
		if done := New(obs, s.policies, later.Add(2*time.Second)); done.Decisions[0].Action != Evict {
			t.Errorf("%s: %+v, want an eviction once the Job has succeeded", what, *done.Decisions[0].Ruling)
		}
	}
}

func reread(t *testing.T, l Ledger) Ledger {
	t.Helper()
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var again Ledger
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

// checkJobs: I12. No visit begins before its Jobs, nor is settled before those that
// come after it have succeeded; one that has not is one failure; and a visit has one
// Job for a gate.
func (c *check) checkJobs(t reporter, p Plan) {
	t.Helper()
	begun := map[visitKey]Visit{}
	for _, v := range c.obs.Ledger.Visits {
		begun[visitKey{v.Policy, v.Node}] = v
	}
	open := map[visitKey]Visit{}
	for _, v := range p.Ledger.Visits {
		open[visitKey{v.Policy, v.Node}] = v
	}
	for _, d := range p.Decisions {
		key := visitKey{d.Policy, d.Node}
		if (d.Action != Evict && d.Action != Drain) || c.obs.Supposed || len(begun[key].Steps) > 0 || c.obs.Ledger.lost() {
			continue
		}
		node, pol := c.nodes[d.Node], c.policies[d.Policy]
		for _, g := range pol.JobGatesOf(pol.WaveOf(node.Labels), policy.Before) {
			if !succeeded(open[key], g) {
				t.Errorf("I12: begins on %s though the Job of gate %s has not succeeded: %+v", d.Node, g.Name, open[key].Jobs)
			}
		}
	}
	for _, v := range p.Ledger.Finished[min(len(c.obs.Ledger.Finished), len(p.Ledger.Finished)):] {
		node, pol := c.nodes[v.Node], c.policies[v.Policy]
		if v.Outcome != Settled || len(v.Steps) == 0 {
			continue
		}
		for _, g := range pol.JobGatesOf(max(0, pol.WaveOf(node.Labels)), policy.After) {
			if !succeeded(v, g) {
				t.Errorf("I12: the visit to %s settled though the Job of gate %s has not succeeded: %+v", v.Node, g.Name, v.Jobs)
			}
		}
	}
	for _, v := range p.Ledger.Visits {
		c.checkRuns(t, p, v, begun[visitKey{v.Policy, v.Node}])
	}
	created := map[string]string{}
	for _, job := range p.Jobs {
		key := job.Policy + "/" + job.Node + "/" + job.Gate.Name
		if created[key] != "" {
			t.Errorf("I12: Jobs %s and %s are created for one gate and visit", created[key], job.Name)
		}
		created[key] = job.Name
		recorded := false
		for _, r := range open[visitKey{job.Policy, job.Node}].Jobs {
			recorded = recorded || r.Name == job.Name
		}
		if !recorded {
			t.Errorf("I12: Job %s for %s is on no record", job.Name, job.Node)
		}
	}
}

// checkRuns holds the Jobs of an open visit against what was on record of it.
func (c *check) checkRuns(t reporter, p Plan, v, before Visit) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range v.Jobs {
		if seen[r.Gate] {
			t.Errorf("I12: the visit to %s has two Jobs of gate %s", v.Node, r.Gate)
		}
		seen[r.Gate] = true
		after := slices.ContainsFunc(c.policies[v.Policy].AllGates(), func(g policy.Gate) bool { return g.Name == r.Gate && g.Job.When == policy.After })
		news := slices.ContainsFunc(before.Jobs, func(o JobRun) bool { return o.Name == r.Name && o.Ended.IsZero() })
		charged := 0
		for _, f := range p.Ledger.Failures {
			charged += one(f.Policy == v.Policy && f.Node == v.Node && f.Gate == r.Gate && v.lastSettled() != nil && f.DaemonSet == v.lastSettled().DaemonSet)
		}
		if after && charged > 1 || after && news && r.Failed && charged != 1 {
			t.Errorf("I12: Job %s has not succeeded on %s, and that is %d failures", r.Name, v.Node, charged)
		}
	}
}

func succeeded(v Visit, g policy.Gate) bool {
	for _, r := range v.Jobs {
		if r.Gate == g.Name && !r.Ended.IsZero() && !r.Failed {
			return true
		}
	}
	return false
}
