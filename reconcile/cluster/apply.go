// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// Apply carries out the decisions of a plan's steps, one step after the other
// and the objects of a step side by side. It returns one outcome for each
// decision, in their order. An object whose dependency was not applied is
// skipped; nothing else is held up by a failure. Steps before it take time, so
// each is reviewed when its turn has come, if review is not nil.
func (c *Cluster) Apply(ctx context.Context, steps [][]inventory.Decision, review func(step []inventory.Decision) []inventory.Decision) []inventory.Outcome {
	b := batch{cluster: c, steps: steps, review: review, bad: map[inventory.ID]bool{}}
	return b.run(ctx, c.applyOne, c.await)
}

// batch carries out the steps of a plan.
type batch struct {
	cluster *Cluster
	steps   [][]inventory.Decision
	review  func(step []inventory.Decision) []inventory.Decision
	bad     map[inventory.ID]bool // what was not done
	out     []inventory.Outcome
}

// run calls one for each decision, then settle, if it is not nil, for each that
// others wait for.
func (b *batch) run(ctx context.Context, one, settle func(context.Context, inventory.Decision) inventory.Outcome) []inventory.Outcome {
	needed := map[inventory.ID]bool{}
	for _, step := range b.steps {
		for _, d := range step {
			for _, id := range d.After {
				needed[id] = true
			}
		}
	}
	for _, step := range b.steps {
		if b.review != nil {
			step = b.review(step)
		}
		outcomes := make([]inventory.Outcome, len(step))
		var work errgroup.Group
		work.SetLimit(b.cluster.opts.InFlight)
		for i, d := range step {
			work.Go(func() error {
				outcomes[i] = b.carryOut(ctx, d, one)
				if settle != nil && needed[d.ID] && done(outcomes[i].Result) {
					b.settle(ctx, d, &outcomes[i], settle)
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			panic(err) // no function of the group returns one
		}
		for _, o := range outcomes {
			b.bad[o.ID] = !done(o.Result)
		}
		b.out = append(b.out, outcomes...)
	}
	return b.out
}

// carryOut does one decision, unless something it needs was not done.
func (b *batch) carryOut(ctx context.Context, d inventory.Decision, one func(context.Context, inventory.Decision) inventory.Outcome) inventory.Outcome {
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
		if b.bad[id] {
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

// settle replaces an outcome if what was applied does not become usable.
func (b *batch) settle(ctx context.Context, d inventory.Decision, o *inventory.Outcome, settle func(context.Context, inventory.Decision) inventory.Outcome) {
	start := b.cluster.clock()
	after := settle(ctx, d)
	if !done(after.Result) {
		*o = after
	}
	o.Took += b.cluster.clock().Sub(start)
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

// applyOne sends one object.
func (c *Cluster) applyOne(ctx context.Context, d inventory.Decision) inventory.Outcome {
	t, err := c.target(d.Object)
	if err != nil {
		return failure(d.ID, err)
	}
	if t.mapping == nil {
		return failure(d.ID, fmt.Errorf("the API server does not serve %s", d.Object.GroupVersionKind().GroupVersion()))
	}
	before := c.before(d.ID)
	if d.Action == inventory.Recreate {
		if o, gone := c.makeWay(ctx, t, d); !gone {
			return o
		}
		before = nil
	}
	answer, err := c.write(ctx, t, d, before)
	if err != nil {
		c.forget(d.ID)
		return c.refused(ctx, t, before, err)
	}
	if err := c.remember(t, answer); err != nil {
		return failure(d.ID, err)
	}
	result := resultOf(answer, before)
	if d.Action == inventory.Recreate {
		result = inventory.ResultRecreated
	}
	return inventory.Outcome{ID: d.ID, Result: result}
}

// before is the live object that the decision was made from, nil if there was
// none.
func (c *Cluster) before(id inventory.ID) *live {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found[id]
}

// write sends an object. What existed is changed only if it still is the same
// object, and only after the fields of former managers have become ours.
func (c *Cluster) write(ctx context.Context, t target, d inventory.Decision, before *live) (*metav1.PartialObjectMetadata, error) {
	var uid types.UID
	if before != nil {
		uid = before.uid
		if k, ok := c.knowledge(d.ID); !ok || !k.clean || !k.holds(before, d.ID) {
			if err := c.mergeFormer(ctx, t); err != nil && (!apierrors.IsNotFound(err) || notServed(err)) {
				return nil, err
			}
		}
	}
	answer, err := c.apply(ctx, t, uid)
	if status, ok := statusOf(err); ok && uid != "" && oldVersion(status) {
		if err := c.renewVersions(ctx, t); err != nil {
			return nil, err
		}
		return c.apply(ctx, t, uid)
	}
	return answer, err
}

// remember notes that the live object is as Git has it.
func (c *Cluster) remember(t target, answer metav1.Object) error {
	hash, err := inventory.ContentHash(t.object)
	if err != nil {
		return err
	}
	if t.id.GroupKind == definitionKind {
		c.mapper.Reset() // it may serve what it did not when we asked
	}
	none := inventory.Change{ID: t.id, Kind: inventory.None, Owner: c.opts.Instance.ID()}
	return c.learn(t.id, known{hash: hash, clean: true, change: none}, answer)
}

func resultOf(answer metav1.Object, before *live) inventory.Result {
	switch {
	case before == nil:
		return inventory.ResultCreated
	case before.resourceVersion == answer.GetResourceVersion():
		return inventory.ResultUnchanged
	}
	return inventory.ResultConfigured
}

// refused is the outcome of an object that was not applied.
func (c *Cluster) refused(ctx context.Context, t target, before *live, err error) inventory.Outcome {
	if ctx.Err() != nil {
		return failure(t.id, context.Cause(ctx))
	}
	if conflict, ok := errors.AsType[*inventory.ConflictError](err); ok {
		return inventory.Outcome{ID: t.id, Result: inventory.ResultConflict, Err: conflict}
	}
	asked := askedFor(err)
	if before != nil && t.object != nil {
		change, endErr := c.refusedUpdate(ctx, t, before, inventory.Change{ID: t.id}, err)
		if endErr != nil {
			return failure(t.id, endErr)
		}
		err = change.Err
		if change.Kind == inventory.Replace {
			err = &inventory.RejectedError{Message: inventory.Unchangeable(change.Immutable)}
		}
	} else {
		err = refusal(t.id.GroupKind, err)
	}
	if _, ok := errors.AsType[*inventory.RejectedError](err); ok {
		return inventory.Outcome{ID: t.id, Result: inventory.ResultRefused, Err: err}
	}
	o := failure(t.id, err)
	o.RetryAfter = asked
	return o
}
