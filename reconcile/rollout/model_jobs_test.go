// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// fakeJob is one that was created.
type fakeJob struct {
	name, policy, node, gate string
	result                   Reply
	ends                     time.Time // when the result is there; zero when it never is
}

const jobKept = time.Hour

// drawGates gives a policy gates of every kind. Who supposes that every answer is
// yes runs no Jobs.
func (m *model) drawGates(p *policy.UpgradePolicy) {
	if m.chance(4) {
		p.Gates = append(p.Gates, policy.Gate{Name: "quiet", HTTP: policy.HTTPGate{URL: "http://slo", ExpectedStatus: 200}})
	}
	if m.chance(6) {
		p.Gates = append(p.Gates, policy.Gate{Name: "fit", NodeCondition: policy.NodeCondition{Type: "Fit", Status: "True"}})
	}
	for _, gate := range []policy.Gate{{Name: "idle", Job: policy.JobGate{When: policy.Before}}, {Name: "smoke", Job: policy.JobGate{When: policy.After}}} {
		if m.asked && m.chance(4) {
			gate.Job.Spec, gate.Job.Timeout = "{}", 4*time.Minute
			p.Gates = append(p.Gates, gate)
		}
	}
}

// fits makes new conditions, since those before may be in somebody's view.
func (n *fakeNode) fits(fit bool) {
	status := corev1.ConditionFalse
	if fit {
		status = corev1.ConditionTrue
	}
	n.Conditions = []health.NodeCondition{{Type: "Fit", Status: status}}
}

func (m *model) job(name string) *fakeJob {
	i := slices.IndexFunc(m.jobs, func(j *fakeJob) bool { return j.name == name })
	if i < 0 {
		return nil
	}
	return m.jobs[i]
}

func (j *fakeJob) ended(now time.Time) bool { return !j.ends.IsZero() && !now.Before(j.ends) }

// runJobs creates the Jobs of a plan that do not exist.
func (m *model) runJobs(p *pendingPlan) {
	for _, job := range p.plan.Jobs {
		if m.job(job.Name) != nil || (m.fails && !m.over && !m.calm[m.steps]) {
			continue
		}
		for _, o := range m.jobs {
			if o.policy == job.Policy && o.node == job.Node && o.gate == job.Gate.Name && !o.ended(m.now) && m.runsFor(o) && p.version == m.version {
				m.Errorf("I12: Job %s is created on %s while %s runs there for the same visit", job.Name, job.Node, o.name)
			}
		}
		j := &fakeJob{name: job.Name, policy: job.Policy, node: job.Node, gate: job.Gate.Name, result: Yes, ends: m.now.Add(20 * time.Second)}
		if !m.over {
			j.result = choose(m, Yes, Yes, Yes, No)
			j.ends = m.now.Add(choose(m, time.Second, 20*time.Second, 3*time.Minute, 10*time.Minute))
		}
		m.jobs = append(m.jobs, j)
		m.say("Job %s is created on %s: %+v", j.name, j.node, *j)
	}
}

// runsFor says that the record of an open visit has the Job.
func (m *model) runsFor(j *fakeJob) bool {
	return slices.ContainsFunc(m.ledger.Visits, func(v Visit) bool {
		return slices.ContainsFunc(v.Jobs, func(r JobRun) bool { return r.Name == j.name })
	})
}

// endJobs lets those go that run for nobody, and those that ended long ago.
func (m *model) endJobs() {
	m.jobs = slices.DeleteFunc(m.jobs, func(j *fakeJob) bool {
		if j.ended(m.now) {
			return !m.now.Before(j.ends.Add(jobKept))
		}
		return !m.runsFor(j)
	})
}

// disturbJob lets one disappear.
func (m *model) disturbJob() {
	if len(m.jobs) == 0 {
		return
	}
	i := m.rand.IntN(len(m.jobs))
	m.say("Job %s is deleted", m.jobs[i].name)
	m.jobs = slices.Delete(m.jobs, i, i+1)
}

// askJob is how a Job does. For a while that may not be known.
func (m *model) askJob(name string) (reply Reply, ended time.Time) {
	switch j := m.job(name); {
	case !m.over && m.chance(8):
		return Unknown, time.Time{}
	case j == nil:
		return Absent, time.Time{}
	case j.ended(m.now):
		return j.result, j.ends
	}
	return Pending, time.Time{}
}
