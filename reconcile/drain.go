// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

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
	due, deadline := inWindow(r.doubted(report.Observation), report.Plan.Rollout, rollout.Drain, r.opts.Now())
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
