// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// Apply carries out the decisions of a plan's steps, one step after the other
// and the objects of a step side by side. It returns one outcome for each
// decision, in their order. An object whose dependency was not applied is
// skipped; nothing else is held up by a failure, nor by an object that others wait
// for, but for what may reject objects and comes last. Steps before it take time,
// so each is reviewed when its turn has come, if review is not nil; several
// goroutines may call it at once.
func (c *Cluster) Apply(ctx context.Context, steps [][]inventory.Decision, review func(step []inventory.Decision) []inventory.Decision) []inventory.Outcome {
	return c.batch(steps, review).run(ctx, c.applyOne, c.await)
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
