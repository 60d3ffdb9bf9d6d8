// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/cluster"
)

const (
	// settleDelay gathers what a burst of watch events says into one pass.
	settleDelay = 20 * time.Millisecond
	// longestSleep bounds the wait for an instant that matters, so that a clock
	// that was set is noticed. A pass without news asks the API server nothing.
	longestSleep = time.Minute
	// A pass that failed is tried again after firstRetry, then twice as long
	// each time up to lastRetry, or when something moves.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// follow runs passes for as long as the Lease is held.
func (a *Agent) follow(ctx context.Context) error {
	c, err := cluster.New(a.cfg.Cluster, cluster.Options{
		Instance:       a.instance(),
		ForceConflicts: a.cfg.ForceConflicts,
		Log:            a.log,
	})
	if err != nil {
		return err
	}
	updates := make(chan update, 1)
	poller := &poller{
		source: a.source, path: a.cfg.Path, interval: a.cfg.Interval,
		now: a.cfg.Now, log: a.log, metrics: a.metrics,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { poller.run(ctx, updates); return nil })
	group.Go(func() error {
		if err := c.Start(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		a.setPhase(leading)
		a.log.Info("leading", "lease", a.cfg.Namespace+"/"+a.cfg.Instance)
		a.loop(ctx, updates, c.Changed(), a.reconciler(c))
		return nil
	})
	return group.Wait()
}

func (a *Agent) instance() inventory.Instance {
	return inventory.Instance{Namespace: a.cfg.Namespace, Name: a.cfg.Instance}
}

func (a *Agent) reconciler(c *cluster.Cluster) *reconcile.Reconciler {
	return reconcile.NewReconciler(reconcile.Options{
		Instance:   a.instance(),
		Cluster:    c,
		Store:      NewStore(a.clientset, a.instance()),
		AllowPrune: a.cfg.AllowPrune,
		Now:        a.cfg.Now,
		Log:        a.log,
	})
}

// loop runs a pass when Git, the cluster or the clock gives a reason to. The
// first one waits for the first word from Git, good or bad.
func (a *Agent) loop(ctx context.Context, updates <-chan update, changed <-chan struct{}, r *reconcile.Reconciler) {
	var src reconcile.Source
	select {
	case <-ctx.Done():
		return
	case u := <-updates:
		src = a.accept(u)
	}
	retry := time.Duration(0)
	for ctx.Err() == nil {
		next, err := a.pass(ctx, r, src)
		if ctx.Err() != nil {
			return
		}
		wait := a.until(next)
		if retry = nextRetry(retry, err); err != nil {
			a.log.Error("pass failed", "err", err, "retry", retry)
			wait = retry
			changed := (<-chan struct{})(nil) // what moved meanwhile is read by the retry
			src = a.await(ctx, updates, changed, wait, src)
			continue
		}
		src = a.await(ctx, updates, changed, wait, src)
	}
}

// await blocks until there is a reason for a pass and answers with the newest
// word from Git.
func (a *Agent) await(ctx context.Context, updates <-chan update, changed <-chan struct{}, wait time.Duration, src reconcile.Source) reconcile.Source {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case u := <-updates:
		return a.accept(u)
	case <-changed:
		select {
		case <-ctx.Done():
		case <-time.After(settleDelay):
		}
	}
	return src
}

func (a *Agent) accept(u update) reconcile.Source {
	a.metrics.source(u)
	return reconcile.Source{Fleet: u.fleet, Err: u.err}
}

// pass runs one pass and logs one line if it changed something.
func (a *Agent) pass(ctx context.Context, r *reconcile.Reconciler, src reconcile.Source) (time.Time, error) {
	start := a.cfg.Now()
	report, err := r.Pass(ctx, src)
	took := a.cfg.Now().Sub(start)
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	a.metrics.pass(report, took, err)
	a.logPass(report, took)
	return report.Next, err
}

// until is how long to sleep before the instant next.
func (a *Agent) until(next time.Time) time.Duration {
	if next.IsZero() {
		return longestSleep
	}
	return min(max(next.Sub(a.cfg.Now()), settleDelay), longestSleep)
}

func nextRetry(last time.Duration, err error) time.Duration {
	switch {
	case err == nil:
		return 0
	case last == 0:
		return firstRetry
	default:
		return min(2*last, lastRetry)
	}
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
