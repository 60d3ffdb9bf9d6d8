// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
)

// removeAgain is how soon what is left is looked at again.
const removeAgain = time.Second

// Remover takes an instance one step closer to its end.
type Remover interface {
	Remove(ctx context.Context, how reconcile.Removal) (reconcile.Report, error)
}

// Uninstall removes what an instance owns, pass after pass: until nothing is left,
// what is left would not go by itself, or patience has passed. It answers with what
// each pass did; the last report says what is left, and why. Whoever calls it holds
// the Lease.
func Uninstall(ctx context.Context, r Remover, how reconcile.Removal, patience time.Duration) ([]reconcile.Report, error) {
	var reports []reconcile.Report
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		report, err := r.Remove(ctx, how)
		if err != nil && !errors.Is(err, store.ErrStale) {
			return reports, err
		}
		if err == nil {
			reports = append(reports, report)
			if Removed(report) || !goesOn(report) {
				return reports, nil
			}
		}
		again := time.NewTimer(removeAgain)
		select {
		case <-ctx.Done():
			return reports, context.Cause(ctx)
		case <-end.C:
			return reports, err
		case <-again.C:
		}
	}
}

// Removed says that a pass has left nothing to do. What carries the instance's marks
// and is not in its inventory is left to somebody, too.
func Removed(report reconcile.Report) bool {
	astray := slices.ContainsFunc(report.Plan.Objects.Decisions(), func(d inventory.Decision) bool {
		return d.Action == inventory.Hold && d.Reason == inventory.Untracked
	})
	return report.After.Inventory.Len() == 0 && report.StillCordoned == nil && !astray
}

// goesOn says that time may bring what a pass has not.
func goesOn(report reconcile.Report) bool {
	if report.StillCordoned != nil {
		return true
	}
	waits := slices.ContainsFunc(report.Plan.Objects.Decisions(), func(d inventory.Decision) bool {
		return d.Action == inventory.Hold && (d.Reason == inventory.Terminating || d.Reason == inventory.InUse || d.Reason == inventory.Unknown)
	})
	return waits || slices.ContainsFunc(report.Outcomes, func(o inventory.Outcome) bool {
		return o.Result == inventory.ResultDeleting || o.Result == inventory.ResultFailed
	})
}
