// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// evict sends the evictions of a plan that may still be sent. Recording them
// takes time, in which a window may have shut; and none is sent after the
// instant at which it does.
func (r *Reconciler) evict(ctx context.Context, report *Report) {
	due, deadline := inWindow(r.doubted(report.Observation), report.Plan.Rollout, rollout.Evict, r.opts.Now())
	if due = r.sent.unsent(due, r.opts.Now()); len(due) == 0 {
		return
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline.Sub(r.opts.Now()))
		defer cancel()
	}
	report.Attempts = r.opts.Cluster.Evict(ctx, due)
	r.sent.note(report.Attempts, r.opts.Now())
}

// inWindow are the plan's decisions of one action whose window is still open, and the
// instant at which the first of these windows shuts; zero if none does.
func inWindow(obs Observation, plan rollout.Plan, action rollout.Action, now time.Time) (due []rollout.Decision, deadline time.Time) {
	windowOf := windows(obs, now)
	for _, d := range plan.Decisions {
		if d.Action != action {
			continue
		}
		w := windowOf(d.Policy, d.Node)
		if !w.Open {
			continue
		}
		due = append(due, d)
		if !w.Close.IsZero() && (deadline.IsZero() || w.Close.Before(deadline)) {
			deadline = w.Close
		}
	}
	return due, deadline
}

// windows says what the calendar of a policy means for a node.
func windows(obs Observation, now time.Time) func(policy, node string) window.State {
	hoursByPolicy := map[string]rollout.Hours{}
	for _, p := range obs.Policies.Upgrades {
		hoursByPolicy[p.Name] = rollout.NewHours(p, obs.State.Ledger, obs.ClockProblem, now)
	}
	labelsByNode := map[string]labels.Set{}
	for _, n := range obs.Nodes {
		labelsByNode[n.Name] = n.Labels
	}
	return func(policy, node string) window.State { return hoursByPolicy[policy].For(labelsByNode[node]) }
}
