// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/reconcile/rollout"
)

// checked is governed, with Jobs at both ends of a visit.
const checked = governed + `  gates:
  - {name: idle, job: {when: Before, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}
  - {name: smoke, job: {when: After, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}
`

// jobbing is a world with a node to visit, and Jobs.
type jobbing struct {
	*slow
	obs     Observation
	jobs    map[string]bool
	early   []string // Jobs that were created without being on record
	stopped int      // how often it was looked for Jobs to stop
	err     error    // of every request about Jobs
}

func newJobbing(t *testing.T, now time.Time) *jobbing {
	j := &jobbing{slow: &slow{world: &world{objects: map[string]string{"cni": ""}}, now: now}, obs: observe(t, checked), jobs: map[string]bool{}}
	j.obs.Pods[0].Hash = "older"
	j.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	return j
}

func (j *jobbing) process() *Reconciler {
	return NewReconciler(Options{Instance: us, Cluster: &evicting{world: j.world, obs: j.obs, result: rollout.Sent}, Store: j, Jobs: j, AwaitEvictions: true, Now: func() time.Time { return j.now }})
}

func (j *jobbing) CreateJobs(_ context.Context, jobs []rollout.Job) []rollout.JobAttempt {
	var attempts []rollout.JobAttempt
	for _, job := range jobs {
		if !slices.ContainsFunc(j.stored.Ledger.Visits, func(v rollout.Visit) bool {
			return slices.ContainsFunc(v.Jobs, func(r rollout.JobRun) bool { return r.Name == job.Name })
		}) {
			j.early = append(j.early, job.Name)
		}
		if j.err == nil {
			j.jobs[job.Name] = true
		}
		attempts = append(attempts, rollout.JobAttempt{Job: job, Err: j.err})
	}
	return attempts
}

func (j *jobbing) StopJobs(_ context.Context, wanted map[string]bool) error {
	j.stopped++
	if j.err == nil {
		maps.DeleteFunc(j.jobs, func(name string, _ bool) bool { return !wanted[name] })
	}
	return j.err
}

func (j *jobbing) pass(t *testing.T, r *Reconciler) error {
	t.Helper()
	report, err := r.Pass(t.Context(), Source{Fleet: j.obs.Fleet})
	if len(report.Attempts) > 0 {
		t.Errorf("%d pods were evicted before the Job had succeeded", len(report.Attempts))
	}
	if len(j.early) > 0 {
		t.Errorf("Jobs %v were created before they were on record", j.early)
	}
	return err
}

func (j *jobbing) names() []string { return slices.Sorted(maps.Keys(j.jobs)) }

// However often a process dies, one Job is made, and only once it is on record.
func TestOneJobIsMadeWhereverTheProcessDies(t *testing.T) {
	j := newJobbing(t, open)
	j.dies = 1
	if err := j.pass(t, j.process()); !errors.Is(err, errDead) || len(j.jobs) > 0 {
		t.Fatalf("jobs %v (%v), want none without a record", j.names(), err)
	}
	j.dies, j.writes = 0, 0
	for range 3 {
		if err := j.pass(t, j.process()); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.jobs) != 1 {
		t.Errorf("jobs %v, want one", j.names())
	}
}

// Recording the intent takes time, in which the window may shut.
func TestJobIsNotCreatedAfterTheWindowHasShut(t *testing.T) {
	j := newJobbing(t, open)
	j.lateAfter = "save"
	if err := j.pass(t, j.process()); err != nil {
		t.Fatal(err)
	}
	if len(j.jobs) > 0 {
		t.Errorf("jobs %v, want none: the window has shut", j.names())
	}
}

// What runs for a visit that was given up is stopped, by this process or the
// next. While all is well it is not looked for again.
func TestJobsOfVisitsThatWereGivenUpAreStopped(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		j := newJobbing(t, open)
		r := j.process()
		for range 2 {
			if err := j.pass(t, r); err != nil {
				t.Fatal(err)
			}
		}
		if len(j.jobs) != 1 || j.stopped != 1 {
			t.Fatalf("jobs %v, looked for strays %d times; want one Job, and one look by a new process", j.names(), j.stopped)
		}
		j.now = opens.Add(time.Hour) // the window shuts
		if restarted {
			r = j.process()
		}
		for range 2 {
			if err := j.pass(t, r); err != nil {
				t.Fatal(err)
			}
		}
		if len(j.jobs) > 0 || j.stopped != 2 {
			t.Errorf("restarted %t: jobs %v, looked for strays %d times; want no Job, and one more look", restarted, j.names(), j.stopped)
		}
	}
}

// So is what runs for a gate that the policy has dropped.
func TestJobOfAGateThatIsGoneIsStopped(t *testing.T) {
	j := newJobbing(t, open)
	r := j.process()
	for range 2 {
		if err := j.pass(t, r); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.jobs) != 1 {
		t.Fatalf("jobs %v, want one", j.names())
	}
	j.obs.Fleet = fleetOf(t, governed)
	report, err := r.Pass(t.Context(), Source{Fleet: j.obs.Fleet})
	if err != nil || len(report.Attempts) != 1 {
		t.Fatalf("%d evictions, want one: no gate is left (%v)", len(report.Attempts), err)
	}
	if len(j.jobs) > 0 {
		t.Errorf("jobs %v, want none: no gate is left", j.names())
	}
}

// Without the right to run Jobs the record says so, and nothing else of a pass
// suffers.
func TestJobThatCannotBeCreatedIsOnRecord(t *testing.T) {
	j := newJobbing(t, open)
	j.err = errors.New("jobs.batch is forbidden")
	r := j.process()
	for range 3 {
		if err := j.pass(t, r); err != nil {
			t.Fatal(err)
		}
	}
	if j.stopped != 1 {
		t.Errorf("asked %d times in a minute to stop Jobs", j.stopped)
	}
	j.now = j.now.Add(time.Minute)
	report, err := r.Pass(t.Context(), Source{Fleet: j.obs.Fleet})
	if err != nil || report.StopErr == nil || j.stopped != 2 {
		t.Errorf("asked %d times: %v (%v)", j.stopped, report.StopErr, err)
	}
	var messages []string
	for _, v := range j.stored.Ledger.Visits {
		for _, run := range v.Jobs {
			messages = append(messages, run.Message)
		}
	}
	if diff := cmp.Diff([]string{"jobs.batch is forbidden"}, messages); diff != "" {
		t.Error(diff)
	}
}
