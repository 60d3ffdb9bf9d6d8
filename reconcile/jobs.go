// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Jobs runs the Jobs of gates.
type Jobs interface {
	// CreateJobs creates those that do not exist.
	CreateJobs(ctx context.Context, jobs []rollout.Job) []rollout.JobAttempt
	// StopJobs deletes those of the instance that have not ended and are none of
	// the names.
	StopJobs(ctx context.Context, wanted map[string]bool) error
}

// runJobs creates the Jobs of a plan that may still be started.
func (r *Reconciler) runJobs(ctx context.Context, report *Report) {
	due, deadline := jobsInWindow(r.doubted(report.Observation), report.Plan.Rollout, r.opts.Now())
	if len(due) == 0 || r.opts.Jobs == nil {
		return
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline.Sub(r.opts.Now()))
		defer cancel()
	}
	report.Jobs = r.opts.Jobs.CreateJobs(ctx, due)
}

// jobsInWindow are the Jobs to create: those that begin a visit only while the
// window of their node is open. The deadline is when the first of these shuts;
// zero if none does.
func jobsInWindow(obs Observation, plan rollout.Plan, now time.Time) (due []rollout.Job, deadline time.Time) {
	if len(plan.Jobs) == 0 {
		return nil, time.Time{}
	}
	windowOf := windows(obs, now)
	for _, job := range plan.Jobs {
		if job.Gate.Job.When != policy.Before {
			due = append(due, job)
			continue
		}
		w := windowOf(job.Policy, job.Node)
		if !w.Open {
			continue
		}
		due = append(due, job)
		if !w.Close.IsZero() && (deadline.IsZero() || w.Close.Before(deadline)) {
			deadline = w.Close
		}
	}
	return due, deadline
}

// stopJobs deletes the Jobs that run for nobody any more: of visits that were
// given up, or whose node, policy or gate is gone. A process that starts knows of
// none, so it looks once. What it cannot delete ends by itself, in time.
func (r *Reconciler) stopJobs(ctx context.Context, report Report) error {
	if r.opts.Jobs == nil {
		return nil
	}
	wanted := map[string]bool{}
	for _, v := range report.After.Ledger.Visits {
		for _, run := range v.Jobs {
			wanted[run.Name] = true
		}
	}
	for _, v := range report.After.Ledger.Finished {
		for _, run := range v.Jobs {
			if !run.Ended.IsZero() {
				delete(r.jobs, run.Name)
			}
		}
	}
	maps.Copy(r.jobs, wanted)
	stray := slices.ContainsFunc(slices.Collect(maps.Keys(r.jobs)), func(name string) bool { return !wanted[name] })
	now := r.opts.Now()
	if (!stray && (r.looked || !runsJobs(report.Observation.Policies))) || now.Before(r.relook) {
		return nil
	}
	if err := r.opts.Jobs.StopJobs(ctx, wanted); err != nil {
		r.relook = now.Add(time.Minute)
		return fmt.Errorf("stop jobs of gates: %w", err)
	}
	r.jobs, r.looked = wanted, true
	return nil
}

func runsJobs(set policy.Set) bool {
	return slices.ContainsFunc(set.Upgrades, func(p policy.UpgradePolicy) bool {
		return slices.ContainsFunc(p.AllGates(), func(g policy.Gate) bool { return g.Job.When != "" })
	})
}
