// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
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

// drain goes on with the nodes that are drained, while their windows are open, and not
// in each of many passes.
func (r *Reconciler) drain(ctx context.Context, report *Report) {
	now := r.opts.Now()
	may := inWindow(r.doubted(report.Observation), report.Plan.Rollout, rollout.Drain, now)
	due, deadline := firstShut(slices.DeleteFunc(may, func(d dueDecision) bool { return r.drained.tried(d.Node, now) }))
	if len(due) == 0 || r.opts.Drainer == nil {
		return
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline.Sub(now))
		defer cancel()
	}
	for _, d := range due {
		r.drained.note(d.Node, now)
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
	if len(plan.Uncordons) == 0 {
		return nil
	}
	now := r.opts.Now()
	due := slices.DeleteFunc(slices.Clone(plan.Uncordons), func(u rollout.Uncordon) bool { return r.uncordoned.tried(u.Node, now) })
	err := r.takeOff(ctx, due)
	if err != nil {
		for _, u := range due { // those that went well are not due again
			r.uncordoned.note(u.Node, now)
		}
	}
	return err
}

// takeOff takes cordons off.
func (r *Reconciler) takeOff(ctx context.Context, cordons []rollout.Uncordon) error {
	if len(cordons) == 0 || r.opts.Drainer == nil {
		return nil
	}
	if err := r.opts.Drainer.Uncordon(ctx, cordons); err != nil {
		return fmt.Errorf("give nodes back: %w", err)
	}
	return nil
}
