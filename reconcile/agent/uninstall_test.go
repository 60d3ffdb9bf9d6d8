// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
)

// passes are what a Remover answers, one after another; the last for ever.
type passes struct {
	reports []reconcile.Report
	errs    []error
	asked   int
}

func (p *passes) Remove(context.Context, reconcile.Removal) (reconcile.Report, error) {
	i := min(p.asked, len(p.reports)-1)
	p.asked++
	var err error
	if i < len(p.errs) {
		err = p.errs[i]
	}
	return p.reports[i], err
}

func TestUninstallEndsWhenNothingIsLeftOrNothingMoves(t *testing.T) {
	id, err := inventory.ParseFormat("ConfigMap/agents/a")
	if err != nil {
		t.Fatal(err)
	}
	left := func(d inventory.Decision, o ...inventory.Outcome) reconcile.Report {
		d.ID = id
		r := reconcile.Report{Outcomes: o, After: reconcile.State{Inventory: inventory.NewSet(id)}}
		r.Plan.Objects.Prunes = [][]inventory.Decision{{d}}
		return r
	}
	held := func(reason inventory.Reason) reconcile.Report {
		return left(inventory.Decision{Action: inventory.Hold, Reason: reason})
	}
	tried := func(result inventory.Result) reconcile.Report {
		return left(inventory.Decision{Action: inventory.Prune}, inventory.Outcome{ID: id, Result: result})
	}
	cordoned := reconcile.Report{StillCordoned: errors.New("node n1 stays cordoned: kured")}
	for name, c := range map[string]struct {
		passes passes
		want   int // passes
		took   time.Duration
		err    error
	}{
		"nothing is left":                     {passes{reports: []reconcile.Report{{}}}, 1, 0, nil},
		"a finalizer that is taken off":       {passes{reports: []reconcile.Report{tried(inventory.ResultDeleting), held(inventory.Terminating), {}}}, 3, 2 * removeAgain, nil},
		"pods that are going":                 {passes{reports: []reconcile.Report{held(inventory.InUse), {}}}, 2, removeAgain, nil},
		"a finalizer that stays":              {passes{reports: []reconcile.Report{held(inventory.Terminating)}}, 60, time.Minute, nil},
		"a window that has shut":              {passes{reports: []reconcile.Report{held("WindowShut")}}, 1, 0, nil},
		"what the API server refuses":         {passes{reports: []reconcile.Report{tried(inventory.ResultRefused)}}, 1, 0, nil},
		"a request that failed":               {passes{reports: []reconcile.Report{tried(inventory.ResultFailed), {}}}, 2, removeAgain, nil},
		"a node that somebody is at work on":  {passes{reports: []reconcile.Report{cordoned, {}}}, 2, removeAgain, nil},
		"somebody else wrote the ledger":      {passes{reports: []reconcile.Report{{}, {}}, errs: []error{store.ErrStale}}, 2, removeAgain, nil},
		"the state cannot be read":            {passes{reports: []reconcile.Report{{}}, errs: []error{errAway}}, 1, 0, errAway},
		"somebody else writes it all the way": {passes{reports: []reconcile.Report{{}}, errs: []error{store.ErrStale}}, 60, time.Minute, store.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := Uninstall(t.Context(), &c.passes, reconcile.Removal{}, time.Minute)
				if !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if took := time.Since(began); took != c.took || c.passes.asked < c.want || c.passes.asked > c.want+1 {
					t.Errorf("%d passes in %s, want %d in %s", c.passes.asked, took, c.want, c.took)
				}
			})
		})
	}
}

var errAway = errors.New("the API server is away")

func TestUninstallStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*removeAgain-removeAgain/2)
		defer cancel()
		p := &passes{reports: []reconcile.Report{{StillCordoned: errors.New("node n1 stays cordoned")}}}
		if reports, err := Uninstall(ctx, p, reconcile.Removal{}, time.Hour); !errors.Is(err, context.DeadlineExceeded) || len(reports) != 5 {
			t.Errorf("%d reports, %v", len(reports), err)
		}
	})
}
