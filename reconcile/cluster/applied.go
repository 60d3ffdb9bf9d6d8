// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/util/proto"

	"lamplighter.dev/inventory"
)

// Applied is what is left in the cluster of an object as we applied it.
type Applied struct {
	ID inventory.ID
	// Object has the fields that our manager holds, with their live values; nil
	// if it does not exist, if it is a Secret, which is not read, or if Err says
	// why it is not known.
	Object *unstructured.Unstructured
	Err    error
}

// Applied reads the objects of the IDs, in their order, and reduces each to what
// we applied. It asks for every object but Secrets, so it is for one-shot
// commands.
func (c *Cluster) Applied(ctx context.Context, ids []inventory.ID) ([]Applied, error) {
	doc, err := c.typed.Discovery().OpenAPISchema()
	if err != nil {
		return nil, fmt.Errorf("read the schema of the API: %w", err)
	}
	models, err := proto.NewOpenAPIData(doc)
	if err != nil {
		return nil, fmt.Errorf("schema of the API: %w", err)
	}
	types, err := managedfields.NewGVKParser(models, false)
	if err != nil {
		return nil, fmt.Errorf("schema of the API: %w", err)
	}
	out := make([]Applied, len(ids))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(c.opts.InFlight)
	for i, id := range ids {
		out[i].ID = id
		if id.GroupKind == secretKind {
			continue
		}
		work.Go(func() error {
			out[i].Object, out[i].Err = c.applied(ctx, id, types)
			return context.Cause(ctx)
		})
	}
	return out, work.Wait()
}

func (c *Cluster) applied(ctx context.Context, id inventory.ID, types *managedfields.GvkParser) (*unstructured.Unstructured, error) {
	t, err := c.targetOf(id)
	if err != nil || t.mapping == nil {
		return nil, err
	}
	var live *unstructured.Unstructured
	err = c.try(ctx, func(ctx context.Context) (err error) {
		live, err = c.resource(t).Get(ctx, id.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal(id.GroupKind, err)
	}
	schema := types.Type(live.GroupVersionKind())
	if schema == nil {
		return nil, fmt.Errorf("the API server publishes no schema of %s", live.GroupVersionKind().GroupKind())
	}
	ours := &unstructured.Unstructured{}
	if err := managedfields.ExtractInto(live, *schema, inventory.FieldManager, ours, ""); err != nil {
		return nil, fmt.Errorf("fields of manager %s: %w", inventory.FieldManager, err)
	}
	if ours.Object == nil {
		ours.Object = map[string]any{}
	}
	ours.SetName(live.GetName())
	ours.SetNamespace(live.GetNamespace())
	ours.SetKind(live.GetKind())
	ours.SetAPIVersion(live.GetAPIVersion())
	return ours, nil
}
