// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// evict begins to send the evictions of a plan that may still be sent. Recording them
// takes time, in which a window may have shut; and none is sent after the instant at
// which its own does.
func (r *Reconciler) evict(ctx context.Context, report *Report) {
	obs := r.doubted(report.Observation)
	r.evictions.begin(ctx, inWindow(obs, report.Plan.Rollout, rollout.Evict, r.opts.Now()), obs.UnderWay)
	if r.opts.AwaitEvictions {
		r.evictions.wait()
	}
}

// catchUp takes in what has become of evictions since the last pass, before it is
// decided on others.
func (r *Reconciler) catchUp(obs *Observation) []rollout.Attempt {
	var attempts []rollout.Attempt
	attempts, obs.UnderWay, obs.Queued = r.evictions.look(obs.Pods)
	obs.State.Ledger, _ = learn(obs.State.Ledger, attempts, r.opts.Now())
	return attempts
}

// Wait blocks until no eviction is under way any more. That is soon after the end of the
// context of the passes.
func (r *Reconciler) Wait() { r.evictions.wait() }

// learn puts on record what has become of evictions, and says whether that is news.
func learn(l rollout.Ledger, attempts []rollout.Attempt, now time.Time) (_ rollout.Ledger, news bool) {
	for _, a := range attempts {
		switch a.Result {
		case rollout.Refused:
			l, news = l.Refuse(a.Decision, a.Message, now), true
		case rollout.Errored:
			var changed bool
			l, changed = l.Errored(a.Decision, problemOf(a.Err))
			news = news || changed
		}
	}
	return l, news
}

// inWindow are the plan's decisions of one action whose window is still open, and when
// it shuts.
func inWindow(obs Observation, plan rollout.Plan, action rollout.Action, now time.Time) []dueDecision {
	if !slices.ContainsFunc(plan.Decisions, func(d rollout.Decision) bool { return d.Action == action }) {
		return nil
	}
	var due []dueDecision
	windowOf := windows(obs, now)
	for _, d := range plan.Decisions {
		if d.Action != action {
			continue
		}
		if w := windowOf(d.Policy, d.Node); w.Open {
			due = append(due, dueDecision{d, w.Close})
		}
	}
	return due
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
