// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"lamplighter.dev/reconcile/rollout"
)

// Drainer empties nodes and gives them back.
type Drainer interface {
	// Drain takes nodes one step further and waits for no pod.
	Drain(ctx context.Context, decisions []rollout.Decision) []rollout.Attempt
	// Uncordon takes off the cordons that carry our mark, each with one try.
	Uncordon(ctx context.Context, nodes []rollout.Uncordon) error
}

// drain goes on with the nodes that are drained, while their windows are open.
func (r *Reconciler) drain(ctx context.Context, report *Report) {
	due, deadline := firstShut(inWindow(r.doubted(report.Observation), report.Plan.Rollout, rollout.Drain, r.opts.Now()))
	if len(due) == 0 || r.opts.Drainer == nil {
		return
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline.Sub(r.opts.Now()))
		defer cancel()
	}
	report.Drains = r.opts.Drainer.Drain(ctx, due)
}

// firstShut are decisions, and the instant at which the first of their windows shuts;
// zero if none does.
func firstShut(due []dueDecision) (decisions []rollout.Decision, deadline time.Time) {
	for _, d := range due {
		decisions = append(decisions, d.Decision)
		if !d.shuts.IsZero() && (deadline.IsZero() || d.shuts.Before(deadline)) {
			deadline = d.shuts
		}
	}
	return decisions, deadline
}

// uncordon gives nodes back, at any time.
func (r *Reconciler) uncordon(ctx context.Context, plan rollout.Plan) error {
	if len(plan.Uncordons) == 0 || r.opts.Drainer == nil {
		return nil
	}
	if err := r.opts.Drainer.Uncordon(ctx, plan.Uncordons); err != nil {
		return fmt.Errorf("give nodes back: %w", err)
	}
	return nil
}
