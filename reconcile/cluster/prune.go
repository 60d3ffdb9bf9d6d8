// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// Prune carries out the deletions and releases of a plan, one step after the
// other and the objects of a step side by side. Only what is confirmed to be
// gone has the result Pruned. Review is as for Apply.
func (c *Cluster) Prune(ctx context.Context, steps [][]inventory.Decision, review func(step []inventory.Decision) []inventory.Decision) []inventory.Outcome {
	return c.batch(steps, review).run(ctx, c.removeOne, nil)
}

// removeOne deletes or releases one object.
func (c *Cluster) removeOne(ctx context.Context, d inventory.Decision) inventory.Outcome {
	if d.Action == inventory.Release && !marked(d.Reason) {
		c.forget(d.ID)
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultReleased}
	}
	t, err := c.targetOf(d.ID)
	if err != nil {
		return failure(d.ID, err)
	}
	if t.mapping == nil {
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultPruned} // no kind, no object
	}
	c.forget(d.ID)
	r := removal{cluster: c, target: t, decision: d}
	result, err := r.run(ctx)
	if err != nil && result == "" {
		return c.refused(ctx, t, nil, err)
	}
	return inventory.Outcome{ID: d.ID, Result: result, Err: err}
}

// marked says that an object which is released for a reason carries our marks,
// and should not.
func marked(reason inventory.Reason) bool {
	switch reason {
	case inventory.Gone, inventory.NotOwned, inventory.Moved:
		return false
	}
	return true
}

// removal deletes or releases one object that was seen to exist.
type removal struct {
	cluster  *Cluster
	target   target
	decision inventory.Decision
}

// run looks at the object and acts on exactly what it saw; if the object moves
// in between, it looks again.
func (r removal) run(ctx context.Context) (inventory.Result, error) {
	for range tries {
		m, err := r.read(ctx)
		if apierrors.IsNotFound(err) {
			return inventory.ResultPruned, nil
		}
		if err != nil {
			return "", err
		}
		if owner := m.Annotations[inventory.OwnerAnnotation]; owner != r.cluster.opts.Instance.ID() {
			return inventory.ResultReleased, nil // it is not ours any more
		}
		if m.UID != r.decision.UID {
			return "", errors.New("it was created anew since it was looked at")
		}
		if r.decision.Action == inventory.Release || inventory.StaysOnRemoval(m.Annotations) {
			err = r.release(ctx, m)
		} else {
			err = r.delete(ctx, m)
		}
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		if r.decision.Action == inventory.Release || inventory.StaysOnRemoval(m.Annotations) {
			return inventory.ResultReleased, nil
		}
		return r.confirm(ctx)
	}
	return "", errors.New("it changes faster than it can be deleted")
}

func (r removal) read(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	var m *metav1.PartialObjectMetadata
	err := r.cluster.try(ctx, func(ctx context.Context) (err error) {
		m, err = r.cluster.metadataOf(r.target).Get(ctx, r.target.id.Name, metav1.GetOptions{})
		return err
	})
	return m, err
}

func (r removal) delete(ctx context.Context, m *metav1.PartialObjectMetadata) error {
	if m.DeletionTimestamp != nil {
		return nil
	}
	if err := r.takesNothingAlong(ctx); err != nil {
		return err
	}
	return r.deleteWith(ctx, m, metav1.DeletePropagationBackground)
}

// deleteWith deletes exactly the object that was seen.
func (r removal) deleteWith(ctx context.Context, m *metav1.PartialObjectMetadata, propagation metav1.DeletionPropagation) error {
	return r.cluster.try(ctx, func(ctx context.Context) error {
		return r.cluster.metadataOf(r.target).Delete(ctx, m.Name, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion},
			PropagationPolicy: &propagation,
		})
	})
}

// takesNothingAlong looks once more at what would go with a namespace or a
// definition: much may have happened since the plan.
func (r removal) takesNothingAlong(ctx context.Context) error {
	switch r.target.id.GroupKind {
	case namespaceKind, definitionKind:
	default:
		return nil
	}
	cargo := r.cluster.cargo(ctx, r.target.id)
	if cargo.err == nil && len(cargo.foreign) > 0 {
		return fmt.Errorf("holds %s, not in this inventory", cargo.foreign[0])
	}
	return cargo.err
}

// release takes our marks off an object that stays.
func (r removal) release(ctx context.Context, m *metav1.PartialObjectMetadata) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             m.UID,
		"resourceVersion": m.ResourceVersion,
		"labels":          map[string]any{inventory.InstanceLabel: nil},
		"annotations":     map[string]any{inventory.OwnerAnnotation: nil, inventory.AppliedAnnotation: nil, inventory.EncryptedAnnotation: nil},
	}})
	if err != nil {
		return err
	}
	return r.cluster.try(ctx, func(ctx context.Context) error {
		_, err := r.cluster.metadataOf(r.target).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: inventory.FieldManager})
		return err
	})
}

// confirm waits until the object is gone.
func (r removal) confirm(ctx context.Context) (inventory.Result, error) {
	var last *metav1.PartialObjectMetadata
	err := until(ctx, r.cluster.opts.DeletionTimeout, func(ctx context.Context) (bool, error) {
		m, err := r.read(ctx)
		if apierrors.IsNotFound(err) || err == nil && m.UID != r.decision.UID {
			return true, nil
		}
		if err == nil {
			last = m
		}
		return false, err
	})
	if err == nil {
		return inventory.ResultPruned, nil
	}
	if last == nil {
		return inventory.ResultDeleting, err
	}
	if len(last.Finalizers) > 0 {
		names := slices.Sorted(slices.Values(last.Finalizers))
		return inventory.ResultDeleting, fmt.Errorf("waits for finalizer %s", strings.Join(names, ", "))
	}
	return inventory.ResultDeleting, errors.New("its deletion is not finished yet")
}
