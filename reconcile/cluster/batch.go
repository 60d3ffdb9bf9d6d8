// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lamplighter.dev/inventory"
)

// reviewer looks at decisions once more when their turn has come. Several goroutines
// may ask it at once.
type reviewer func([]inventory.Decision) []inventory.Decision

// carrier does something about one decision.
type carrier func(context.Context, inventory.Decision) inventory.Outcome

// batch carries out the steps of a plan, one after the other. An object that others
// wait for, and what waits for it, holds up no other object.
type batch struct {
	cluster *Cluster
	steps   [][]inventory.Decision
	review  reviewer
	needed  map[inventory.ID]bool // that others wait for
	late    sync.WaitGroup        // objects that go on while later steps are carried out

	mu      sync.Mutex
	bad     map[inventory.ID]bool          // what was not done
	pending map[inventory.ID]chan struct{} // closed when it is known whether it was
}

func (c *Cluster) batch(steps [][]inventory.Decision, review reviewer) *batch {
	b := &batch{
		cluster: c, steps: steps, review: review,
		needed: map[inventory.ID]bool{}, bad: map[inventory.ID]bool{}, pending: map[inventory.ID]chan struct{}{},
	}
	for _, step := range steps {
		for _, d := range step {
			for _, id := range d.After {
				b.needed[id] = true
			}
		}
	}
	return b
}

// run calls one for each decision, then settle, if it is not nil, for each that
// others wait for.
func (b *batch) run(ctx context.Context, one, settle carrier) []inventory.Outcome {
	outcomes := make([][]inventory.Outcome, len(b.steps))
	for i, step := range b.steps {
		if slices.ContainsFunc(step, func(d inventory.Decision) bool { return inventory.ComesLast(d.ID) }) {
			b.late.Wait()
		}
		if b.review != nil {
			step = b.review(step)
		}
		outcomes[i] = make([]inventory.Outcome, len(step))
		var work errgroup.Group
		work.SetLimit(b.cluster.opts.InFlight)
		for j, d := range step {
			o := &outcomes[i][j]
			if waits := b.waits(d); len(waits) > 0 {
				since := b.cluster.clock()
				b.later(d.ID, func() {
					*o = b.afterWaiting(ctx, d, waiting{waits, since}, one)
					b.settle(ctx, d, o, settle)
				})
				continue
			}
			work.Go(func() error {
				*o = b.carryOut(ctx, d, one)
				switch {
				case !b.settles(d, *o, settle):
					b.note(*o)
				default:
					b.later(d.ID, func() { b.settle(ctx, d, o, settle) })
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			panic(err) // no function of the group returns one
		}
	}
	b.late.Wait()
	return slices.Concat(outcomes...)
}

// later goes on with an object while others are carried out. Who waits for it waits
// for the end of that.
func (b *batch) later(id inventory.ID, do func()) {
	done := make(chan struct{})
	b.mu.Lock()
	b.pending[id] = done
	b.mu.Unlock()
	b.late.Go(func() {
		defer close(done)
		do()
	})
}

// waits are the ends of what a decision waits for and what is not done yet.
func (b *batch) waits(d inventory.Decision) []chan struct{} {
	if !d.Action.Acts() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []chan struct{}
	for _, id := range d.After {
		if done, ok := b.pending[id]; ok {
			out = append(out, done)
		}
	}
	return out
}

// longWait is after how long a decision is looked at once more: a window may have
// shut.
const longWait = time.Second

// waiting is what a decision waits for, and since when.
type waiting struct {
	ends  []chan struct{}
	since time.Time
}

// afterWaiting carries out a decision when what it waits for is done, or is known
// not to be.
func (b *batch) afterWaiting(ctx context.Context, d inventory.Decision, w waiting, one carrier) inventory.Outcome {
	for _, done := range w.ends {
		<-done // it listens to ctx itself
	}
	if b.review != nil && b.cluster.clock().Sub(w.since) >= longWait {
		d = b.review([]inventory.Decision{d})[0]
	}
	return b.carryOut(ctx, d, one)
}

// note remembers whether what depends on an object may go on.
func (b *batch) note(o inventory.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad[o.ID] = !done(o.Result)
}

func (b *batch) isBad(id inventory.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bad[id]
}

// carryOut does one decision, unless something it needs was not done.
func (b *batch) carryOut(ctx context.Context, d inventory.Decision, one carrier) inventory.Outcome {
	switch d.Action {
	case inventory.Keep:
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultUnchanged}
	case inventory.Hold:
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultHeld}
	case inventory.Refuse:
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultRefused, Err: errors.New(d.Message)}
	case inventory.Release:
		d.After = nil // it stays where it is, whatever becomes of others
	case inventory.Apply, inventory.Recreate, inventory.Prune:
	}
	for _, id := range d.After {
		if b.isBad(id) {
			return inventory.Outcome{ID: d.ID, Result: inventory.ResultSkipped, Err: fmt.Errorf("%s comes first and was not done", inventory.Format(id))}
		}
	}
	if ctx.Err() != nil {
		return failure(d.ID, context.Cause(ctx))
	}
	if err := b.cluster.throttle.enter(ctx); err != nil {
		return failure(d.ID, err)
	}
	defer b.cluster.throttle.leave()
	start := b.cluster.clock()
	o := one(ctx, d)
	o.Took = b.cluster.clock().Sub(start)
	return o
}

// settles reports whether an object has to become usable before others go on.
func (b *batch) settles(d inventory.Decision, o inventory.Outcome, settle carrier) bool {
	return settle != nil && b.needed[d.ID] && done(o.Result)
}

// settle replaces an outcome if what was applied does not become usable.
func (b *batch) settle(ctx context.Context, d inventory.Decision, o *inventory.Outcome, settle carrier) {
	if b.settles(d, *o, settle) {
		start := b.cluster.clock()
		after := settle(ctx, d)
		if !done(after.Result) {
			*o = after
		}
		o.Took += b.cluster.clock().Sub(start)
	}
	b.note(*o)
}

// done reports whether what depends on an object with this result may go on.
func done(r inventory.Result) bool {
	switch r {
	case inventory.ResultCreated, inventory.ResultConfigured, inventory.ResultRecreated, inventory.ResultUnchanged,
		inventory.ResultPruned, inventory.ResultReleased:
		return true
	case inventory.ResultDeleting, inventory.ResultHeld, inventory.ResultConflict,
		inventory.ResultRefused, inventory.ResultSkipped, inventory.ResultFailed:
	}
	return false
}

func failure(id inventory.ID, err error) inventory.Outcome {
	return inventory.Outcome{ID: id, Result: inventory.ResultFailed, Err: err, RetryAfter: askedFor(err)}
}
