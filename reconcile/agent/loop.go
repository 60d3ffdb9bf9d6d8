// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/cluster"
)

const (
	// What a burst of watch events says is gathered into one pass, for as long as the
	// last one took, within these bounds: passes that take long take turns with others.
	shortestGather = 20 * time.Millisecond
	longestGather  = 250 * time.Millisecond
	// longestSleep bounds the wait for an instant that matters, so that a clock
	// that was set is noticed. A pass without news asks the API server nothing.
	longestSleep = time.Minute
	// A pass that failed is tried again after firstRetry, then twice as long
	// each time up to lastRetry, or when Git moves.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// follow runs passes for as long as the Lease is held.
func (a *Agent) follow(ctx context.Context) error {
	c, err := cluster.New(a.cfg.Cluster, a.clusterOptions())
	if err != nil {
		return err
	}
	updates := make(chan update, 1)
	states := NewStore(a.clientset, a.instance())
	poller := &poller{
		source: a.source, trust: a.trust(), decryptionKeys: a.cfg.DecryptionKeys, path: a.cfg.Path, interval: a.cfg.Interval,
		now: a.cfg.Now, log: a.log, metrics: a.metrics, look: a.pushes.look, requested: states.Requested,
	}
	if a.cfg.ForwardOnly {
		poller.forward = forward{descends: a.source.Descends, record: states.Load, keptOut: a.keptOutOfForce}
	}
	asker := NewAsker(c, a.cfg.Now)
	defer asker.Wait()
	foreign, passed := make(chan struct{}, 1), make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { poller.run(ctx, updates); return nil })
	group.Go(func() error { a.crier.run(ctx); return nil })
	group.Go(func() error { states.Watch(ctx, func() { signal(foreign); signal(a.pushes.look) }); return nil })
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-passed: // what is to be applied is not kept waiting
			c.Sweep(ctx)
		}
		return nil
	})
	group.Go(func() error {
		if err := c.Start(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		a.setPhase(leading)
		a.log.Info("leading", "lease", a.cfg.Namespace+"/"+a.cfg.Instance)
		return a.loop(ctx, triggers{updates: updates, changed: c.Changed(), ignore: c.Ignore, answered: asker.Answered(), foreign: foreign, clock: a.clock.changed, passed: sync.OnceFunc(func() { close(passed) })}, a.reconciler(c, states, asker))
	})
	return group.Wait()
}

func (a *Agent) instance() inventory.Instance {
	return inventory.Instance{Namespace: a.cfg.Namespace, Name: a.cfg.Instance}
}

func (a *Agent) trust() trust {
	return trust{keysFile: a.cfg.VerifyKeysFile, object: a.cfg.Verify}
}

// deletionTimeout bounds the wait for one object to be gone: meanwhile no node is
// visited. What takes longer is looked at by a later pass.
const deletionTimeout = time.Second

func (a *Agent) clusterOptions() cluster.Options {
	return cluster.Options{
		Instance:       a.instance(),
		Log:            a.log,
		Now:            a.cfg.Now,
		ForceConflicts: a.cfg.ForceConflicts,
		TakeOverFrom:   a.cfg.TakeOverFrom,
		Adoption:       a.cfg.Adoption,
		Partial:        a.cfg.Partial,

		DeletionTimeout: deletionTimeout,
	}
}

func (a *Agent) reconciler(c *cluster.Cluster, states reconcile.Store, asker reconcile.Asker) *reconcile.Reconciler {
	return reconcile.NewReconciler(reconcile.Options{
		Instance:     a.instance(),
		Identity:     a.lease().identity(),
		Cluster:      c,
		Store:        states,
		Asker:        asker,
		Drainer:      c,
		Jobs:         c,
		Strays:       c,
		AllowPruneOf: a.cfg.AllowPrune,
		Drift:        a.cfg.Drift,
		Adoption:     a.cfg.Adoption,
		Partial:      a.cfg.Partial,
		Now:          a.cfg.Now,
		Clock:        a.clock.Asking(a.clientset),
		TimeZones:    TimeZones(),
	})
}

// triggers are what gives a reason for a pass, beside the clock.
type triggers struct {
	passed   func()                       // is told of a pass that went well
	updates  <-chan update                // Git moved, or cannot be read
	changed  <-chan struct{}              // the cluster moved
	gather   time.Duration                // for how long what has changed may have company
	ignore   func(daemonSets []types.UID) // says whose pods' moves are none of that
	answered <-chan struct{}              // a question of a plan has an answer
	foreign  <-chan struct{}              // somebody else wrote the state
	clock    <-chan struct{}              // the clock is in doubt, or no more
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting
	}
}

// loop runs a pass whenever there is a reason to, until ctx is done or another
// process leads. The first one waits for the first word from Git, good or bad. Nothing
// is under way any more when it returns.
func (a *Agent) loop(ctx context.Context, t triggers, r *reconcile.Reconciler) error {
	defer r.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var src reconcile.Source
	select {
	case <-ctx.Done():
		return nil
	case u := <-t.updates:
		src = a.accept(u)
	}
	retry := time.Duration(0)
	for ctx.Err() == nil {
		select {
		case <-t.foreign:
			r.Forget()
		default:
		}
		next, took, err := a.pass(ctx, r, src, t.ignore)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, reconcile.ErrDeposed):
			return err
		case errors.Is(err, store.ErrStale): // somebody wrote in between: look again, decide again
			sleep(ctx, shortestGather)
			continue
		}
		wait, quiet := a.until(next), t
		quiet.gather = min(max(took, shortestGather), longestGather)
		if retry = nextRetry(retry, err); err != nil {
			a.log.Error("pass failed", "err", err, "retry", retry)
			wait, quiet.changed = retry, nil // what moves meanwhile is seen by the retry
		} else {
			t.passed()
		}
		src = a.await(ctx, quiet, wait, r, src)
	}
	return nil
}

// standsBack leaves the lead for a while to the process that has taken it, whatever
// this one believes of the Lease. It answers false when that is not what ended the
// loop.
func (a *Agent) standsBack(ctx context.Context, err error) bool {
	if !errors.Is(err, reconcile.ErrDeposed) {
		return false
	}
	a.log.Warn("stopped leading", "err", err)
	sleep(ctx, leaseDuration)
	return true
}

// await blocks until there is a reason for a pass and answers with the newest
// word from Git.
func (a *Agent) await(ctx context.Context, t triggers, wait time.Duration, r *reconcile.Reconciler, src reconcile.Source) reconcile.Source {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case u := <-t.updates:
		return a.accept(u)
	case <-t.clock:
	case <-t.answered:
	case <-t.foreign:
		r.Forget()
	case <-t.changed:
		select {
		case <-ctx.Done():
		case u := <-t.updates: // what has just been replaced is not begun
			return a.accept(u)
		case <-time.After(t.gather):
		}
	}
	return src
}

func (a *Agent) accept(u update) reconcile.Source {
	a.metrics.source(u)
	return reconcile.Source{Fleet: u.fleet, Err: u.err, Answers: u.answers}
}

// pass runs one pass and logs one line if it changed something. It answers when the next
// one is due, and how long this one took.
func (a *Agent) pass(ctx context.Context, r *reconcile.Reconciler, src reconcile.Source, ignore func([]types.UID)) (next time.Time, took time.Duration, err error) {
	start := a.cfg.Now()
	report, err := r.Pass(ctx, src)
	took = a.cfg.Now().Sub(start)
	if ctx.Err() != nil {
		return time.Time{}, took, ctx.Err()
	}
	a.metrics.pass(report, took, err)
	a.logPass(report, took)
	if err == nil {
		ignore(report.Strangers())
		a.crier.hear(report)
		a.keptOut.Store(report.Observation.KeptOut())
	}
	return report.Next, took, err
}

// keptOutOfForce is the commit that the last pass has kept out of force; "" if none.
func (a *Agent) keptOutOfForce() string {
	hash, _ := a.keptOut.Load().(string)
	return hash
}

// until is how long to sleep before the instant next.
func (a *Agent) until(next time.Time) time.Duration {
	if next.IsZero() {
		return longestSleep
	}
	return min(max(next.Sub(a.cfg.Now()), shortestGather), longestSleep)
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
