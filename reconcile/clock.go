// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"time"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Clock judges the clock by which windows are read.
type Clock interface {
	// Problem says why it is not to be trusted; empty when nothing is known
	// against it. It asks nobody.
	Problem() string
	// Confirm says the same from a comparison that is young. It asks the API
	// server if there is none, and takes no answer for a problem.
	Confirm(ctx context.Context) string
}

// ClockNote says by which clock and which time zones the last pass went.
type ClockNote struct {
	// Problem says why the clock was not to be trusted; empty when it was.
	Problem string `json:"problem,omitempty"`
	// TimeZones is the release of the IANA time zone database, and where it was
	// read from.
	TimeZones string `json:"timeZones,omitempty"`
}

func (r *Reconciler) clockProblem() string {
	if r.opts.Clock == nil {
		return ""
	}
	return r.opts.Clock.Problem()
}

// doubted is an observation with what has come to be known against the clock since.
func (r *Reconciler) doubted(obs Observation) Observation {
	obs.ClockProblem = cmp.Or(obs.ClockProblem, r.clockProblem())
	return obs
}

// decide plans. Before anything is done for which a window has to be open, the
// clock must have been compared; if it cannot be, or is wrong, what depends on
// it waits.
func (r *Reconciler) decide(ctx context.Context, obs *Observation) (Plan, time.Time, error) {
	now := r.opts.Now()
	plan, err := New(*obs, now)
	r.order = plan.Objects.Order
	if err != nil || r.opts.Clock == nil || obs.ClockProblem != "" || !dependsOnClock(*obs, plan, now) {
		return plan, now, err
	}
	if obs.ClockProblem = r.opts.Clock.Confirm(ctx); obs.ClockProblem == "" {
		return plan, now, nil
	}
	now = r.opts.Now()
	plan, err = New(*obs, now)
	return plan, now, err
}

// dependsOnClock says that something would be done that a doubt about the clock
// would hold back.
func dependsOnClock(obs Observation, plan Plan, now time.Time) bool {
	timed := map[string]bool{}
	for _, p := range obs.Policies.Upgrades {
		timed[p.Name] = rollout.Timed(p)
	}
	for _, d := range plan.Rollout.Decisions {
		if (d.Action == rollout.Evict || d.Action == rollout.Drain) && timed[d.Policy] {
			return true
		}
	}
	for _, job := range plan.Rollout.Jobs {
		if job.Gate.Job.When == policy.Before && timed[job.Policy] {
			return true
		}
	}
	if !plan.Objects.Touches() {
		return false
	}
	obs.ClockProblem = "in question"
	doubtful := vetoes(obs, now)
	for d := range plan.Objects.All() {
		if _, held := doubtful[d.ID]; held && d.Action.Acts() {
			return true
		}
	}
	return false
}
