// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/policy"
)

// A Job is what a gate runs for the node of a visit.
type Job struct {
	Name     string // the same for the same instance, policy, node, revisions, gate and attempt
	Policy   string
	Node     string
	Revision string // of the policy's DaemonSets, in its order, joined by dots
	Gate     policy.Gate
}

// A JobRun is one Job in the record of a visit.
type JobRun struct {
	Gate    string    `json:"gate"`
	Name    string    `json:"name"` // of the Job
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Failed  bool      `json:"failed,omitzero"`   // it ended without success
	Message string    `json:"message,omitempty"` // why, or what is known while it runs
}

// A JobAttempt is what came of one decision to create a Job. One that existed is
// created.
type JobAttempt struct {
	Job Job
	Err error // nil when it exists now
}

// JobErrored records that a Job could not be created.
func (l Ledger) JobErrored(job Job, message string) Ledger {
	l.Visits = cloneVisits(l.Visits)
	for _, v := range l.Visits {
		for i := range v.Jobs {
			if v.Jobs[i].Name == job.Name {
				v.Jobs[i].Message = message
			}
		}
	}
	return l
}

// newJobs are those to be created, by name: those of which the record of an open
// visit knows, each once. A visit may have ended since one was found to be missing.
func (b *book) newJobs() []Job {
	jobs := slices.DeleteFunc(b.jobs, func(j Job) bool {
		v := b.open[visitKey{j.Policy, j.Node}]
		return v == nil || !slices.ContainsFunc(v.Jobs, func(r JobRun) bool { return r.Name == j.Name })
	})
	slices.SortFunc(jobs, func(x, y Job) int { return cmp.Compare(x.Name, y.Name) })
	return slices.CompactFunc(jobs, func(x, y Job) bool { return x.Name == y.Name })
}

// recovered says that something of a visit had failed before all was well, or was
// let pass.
func (v *Visit) recovered() bool {
	return slices.ContainsFunc(v.Steps, func(s Step) bool { return s.Recovered }) ||
		slices.ContainsFunc(v.Jobs, func(r JobRun) bool { return r.Failed })
}

// outcome of a visit that has come to its end.
func (v *Visit) outcome() Outcome {
	if v.recovered() {
		return Recovered
	}
	return Settled
}

// jobOf is the Job of a gate for a stop. Its name holds all that makes it that
// Job, so that whoever has lost the record finds it again and never makes two.
func (t *tour) jobOf(s *stop, g policy.Gate) Job {
	revisions := make([]string, len(t.sets))
	names := make([]string, len(t.sets))
	for i, set := range t.sets {
		d := t.fleet.sets[set]
		names[i], revisions[i] = d.key+"@"+d.Revision, d.Revision
		if g.Job.When == policy.After {
			names[i] += t.otherRevision(s, set)
		}
	}
	attempt := 0
	if r, refused := t.book.refused[visitKey{t.policy.Name, s.node.Name}]; refused && g.Job.When == policy.Before {
		attempt = r.Again + 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		t.instance, t.policy.Name, s.node.Name, strings.Join(names, " "), g.Name, string(g.Job.When), g.Job.Spec, fmt.Sprint(attempt),
	}))
	const longest, enough = 32, 10 // so that the name fits into a label, and no two are the same
	return Job{
		Name:   "lamplighter-" + strings.TrimRight(g.Name[:min(len(g.Name), longest)], "-") + "-" + hex.EncodeToString(sum[:enough])[:18],
		Policy: t.policy.Name, Node: s.node.Name, Revision: strings.Join(revisions, "."), Gate: g,
	}
}

// gatesFor are the gates whose Jobs run for the node of a visit; none of a policy that
// is gone.
func (f *fleet) gatesFor(v Visit, policies []policy.UpgradePolicy) []policy.Gate {
	at := slices.IndexFunc(policies, func(p policy.UpgradePolicy) bool { return p.Name == v.Policy })
	if at < 0 {
		return nil
	}
	p, node := policies[at], f.nodes[f.byNode[v.Node]]
	wave := max(0, p.WaveOf(labels.Set(node.Labels)))
	return slices.Concat(p.JobGatesOf(wave, policy.Before), p.JobGatesOf(wave, policy.After))
}

// dropJobs takes off the record of a visit what runs for none of the gates: nobody
// waits for it any more, and what is on no record is stopped.
func (b *book) dropJobs(v *Visit, gates []policy.Gate) {
	v.Jobs = slices.DeleteFunc(slices.Clone(v.Jobs), func(r JobRun) bool {
		return r.Ended.IsZero() && !slices.ContainsFunc(gates, func(g policy.Gate) bool { return g.Name == r.Gate })
	})
}

// run is the Job of a gate on the record of the visit; nil when it was not
// decided yet. One of another revision or template counts for nothing.
func (t *tour) run(s *stop, job Job) *JobRun {
	if s.visit == nil {
		return nil
	}
	for i := range s.visit.Jobs {
		if r := &s.visit.Jobs[i]; r.Gate == job.Gate.Name && r.Name == job.Name {
			return r
		}
	}
	return nil
}

// firstJobLook is how soon after its creation it is asked how a Job does, and for
// how long the answer counts at first.
const firstJobLook = time.Second

// startJob records the intent to run a Job, in the place of what the gate ran
// before.
func (t *tour) startJob(s *stop, job Job) hold {
	s.visit.Jobs = slices.DeleteFunc(s.visit.Jobs, func(r JobRun) bool { return r.Gate == job.Gate.Name })
	s.visit.Jobs = append(s.visit.Jobs, JobRun{Gate: job.Gate.Name, Name: job.Name, Started: t.now})
	t.book.jobs = append(t.book.jobs, job)
	t.alarm.at(t.now.Add(firstJobLook))
	return hold{action: Wait, reason: JobRunning, message: fmt.Sprintf("gate %s: Job %s is created", job.Gate.Name, job.Name)}
}

// followJob writes into the record what has become of a Job. Those who only look
// see what is on record.
func (t *tour) followJob(r *JobRun, job Job) {
	if !r.Ended.IsZero() {
		return
	}
	if !t.inquiry.supposed {
		q := Question{Kind: JobGate, Node: job.Node, Job: job.Name}
		switch a := t.inquiry.heed(q, t.inquiry.answers[q]); a.Reply {
		case Yes:
			r.Ended, r.Message = r.end(a, t.now), ""
			return
		case No:
			r.Ended, r.Failed, r.Message = r.end(a, t.now), true, a.Message
			return
		case Absent:
			t.book.jobs = append(t.book.jobs, job)
		case Pending, Unknown:
			r.Message = a.Message
		}
	}
	until := r.Started.Add(job.Gate.Job.Timeout)
	if t.now.Before(until) {
		t.alarm.at(until)
		return
	}
	r.Ended, r.Failed = t.now, true
	message := fmt.Sprintf("Job %s has not succeeded within %s", job.Name, job.Gate.Job.Timeout)
	if r.Message != "" {
		message += ": " + r.Message
	}
	r.Message = message
}

// end is when the Job of an answer had ended, however late that is seen. It is told by
// another clock.
func (r *JobRun) end(a Answer, now time.Time) time.Time {
	switch {
	case a.Ended.IsZero():
		return now
	case a.Ended.After(a.At):
		return latest(a.At, r.Started)
	default:
		return latest(a.Ended, r.Started)
	}
}

// waits is the hold of a visit whose Job has not ended.
func (r *JobRun) waits(g policy.Gate) hold {
	message := fmt.Sprintf("gate %s: Job %s runs", g.Name, r.Name)
	if r.Message != "" {
		message = fmt.Sprintf("gate %s: Job %s: %s", g.Name, r.Name, r.Message)
	}
	return hold{Wait, JobRunning, r.Started.Add(g.Job.Timeout), message}
}

// runBefore opens a visit with the Jobs that run before anything else, one after
// another, and waits for them. Those who only look suppose that one which does
// not run yet succeeds.
func (t *tour) runBefore(s *stop) hold {
	if s.visit != nil && s.begun {
		return hold{}
	}
	for _, g := range t.policy.JobGatesOf(s.wave, policy.Before) {
		job := t.jobOf(s, g)
		r := t.run(s, job)
		if r == nil && t.inquiry.supposed {
			continue
		}
		if s.visit == nil {
			s.visit = t.book.begin(Visit{Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now})
			t.trials[s.set.key]++
		}
		if r == nil {
			return t.startJob(s, job)
		}
		if r.Ended.IsZero() {
			return r.waits(g)
		}
	}
	return hold{}
}

// giveUpJobs ends a visit whose Job has failed before anything was done.
func (t *tour) giveUpJobs(s *stop) {
	if s.begun {
		return
	}
	for _, g := range t.policy.JobGatesOf(s.wave, policy.Before) {
		job := t.jobOf(s, g)
		r := t.run(s, job)
		if r == nil {
			return
		}
		t.followJob(r, job)
		if r.Failed {
			t.shutByJob(s, "gate "+g.Name+": "+r.Message, g)
		}
		if r.Failed || r.Ended.IsZero() {
			return
		}
	}
}

func (t *tour) shutByJob(s *stop, message string, g policy.Gate) {
	if t.inDoubt(s.visit) {
		s.hold = t.share(hold{action: Hold, reason: GateShut, message: message})
		return
	}
	r := Refusal{
		Policy: t.policy.Name, Node: s.node.Name, DaemonSet: s.set.key, Pod: s.pod.UID, At: t.now,
		Message: message, Gate: g.Name,
	}
	r.Again = t.book.ledger.refusedBefore(r)
	t.book.refuse(r)
	t.forsake(s)
	t.alarm.at(r.triedAgain())
	s.hold, s.refused = t.share(hold{action: Hold, reason: GateShut, message: message}), &r
}
