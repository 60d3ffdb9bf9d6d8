// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// apply sends an object and returns the metadata that it has now: the rest is
// what was sent. If uid is not empty, only that object is changed and no new
// one is made.
func (c *Cluster) apply(ctx context.Context, t target, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	var answer *metav1.PartialObjectMetadata
	err := c.send(ctx, t, uid, func(ctx context.Context, body []byte, o metav1.PatchOptions) (err error) {
		answer, err = c.metadataOf(t).Patch(ctx, t.id.Name, types.ApplyPatchType, body, o)
		return err
	})
	return answer, err
}

// dryRun returns what apply would make of an object, and changes nothing.
func (c *Cluster) dryRun(ctx context.Context, t target, uid types.UID) (*unstructured.Unstructured, error) {
	var answer *unstructured.Unstructured
	err := c.send(ctx, t, uid, func(ctx context.Context, body []byte, o metav1.PatchOptions) (err error) {
		o.DryRun = []string{metav1.DryRunAll}
		answer, err = c.resource(t).Patch(ctx, t.id.Name, types.ApplyPatchType, body, o)
		return err
	})
	return answer, err
}

// dryApply says whether apply would be refused. Only metadata comes back.
func (c *Cluster) dryApply(ctx context.Context, t target, uid types.UID) error {
	return c.send(ctx, t, uid, func(ctx context.Context, body []byte, o metav1.PatchOptions) error {
		o.DryRun = []string{metav1.DryRunAll}
		_, err := c.metadataOf(t).Patch(ctx, t.id.Name, types.ApplyPatchType, body, o)
		return err
	})
}

// send takes no field that another manager holds, except from those that yield,
// or if conflicts are to be forced, and of ignored ones not even then.
func (c *Cluster) send(ctx context.Context, t target, uid types.UID, patch func(context.Context, []byte, metav1.PatchOptions) error) error {
	for n := 1; ; n++ {
		sent, err := c.ours(ctx, t, uid)
		if err != nil {
			return err
		}
		body, err := bodyOf(sent, uid)
		if err != nil {
			return err
		}
		err = c.sendBody(ctx, body, patch)
		stale := sent.object.GetResourceVersion() != "" && apierrors.IsConflict(err) && len(conflicts(err)) == 0
		if !stale || n == tries {
			return err
		}
	}
}

func (c *Cluster) sendBody(ctx context.Context, body []byte, patch func(context.Context, []byte, metav1.PatchOptions) error) error {
	force := c.opts.ForceConflicts
	for {
		err := c.tryServed(ctx, func(ctx context.Context) error {
			return patch(ctx, body, metav1.PatchOptions{
				FieldManager: inventory.FieldManager,
				Force:        &force,
				// An apply refuses unknown fields by itself. To be strict is to parse
				// the body once more, for keys that are in it twice: none is.
				FieldValidation: metav1.FieldValidationIgnore,
			})
		})
		held := conflicts(err)
		if len(held) == 0 || force {
			return err
		}
		if conflict := foreignConflict(held, c.yields); conflict != nil {
			return conflict
		}
		force = true
	}
}

// tryServed is try for kinds that may have been defined a moment ago: an API
// server begins to serve them a little later than it says so.
func (c *Cluster) tryServed(ctx context.Context, request func(context.Context) error) error {
	wait := firstWait
	for n := 1; ; n++ {
		err := c.try(ctx, request)
		if n == tries || !notServed(err) || pause(ctx, wait) != nil {
			return err
		}
		wait *= 2
	}
}

// notServed recognises the answer to a path that the API server does not know,
// as opposed to one about an object that does not exist.
func notServed(err error) bool {
	status, ok := statusOf(err)
	if !ok || !apierrors.IsNotFound(err) || status.Details == nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

func bodyOf(t target, uid types.UID) ([]byte, error) {
	obj := t.object
	if uid != "" || t.namespace() != obj.GetNamespace() {
		obj = obj.DeepCopy()
		obj.SetNamespace(t.namespace())
		if uid != "" {
			obj.SetUID(uid)
		}
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inventory.Format(t.id), err)
	}
	return body, nil
}
