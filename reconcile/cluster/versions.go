// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// renewVersions puts the fields of an object on record at the version at which we
// apply it. An older version, at which somebody has applied it once, may not have a
// field that the object has by now, and then the API server applies it no more.
func (c *Cluster) renewVersions(ctx context.Context, t target) error {
	var err error
	for range tries { // a status written in between makes the patch stale
		err = c.try(ctx, func(ctx context.Context) error { return c.renewOnce(ctx, t) })
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}

func (c *Cluster) renewOnce(ctx context.Context, t target) error {
	m, err := c.metadataOf(t).Get(ctx, t.id.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	version := t.object.GroupVersionKind().GroupVersion()
	for i := range m.ManagedFields {
		e := &m.ManagedFields[i]
		if gv, err := schema.ParseGroupVersion(e.APIVersion); err == nil && gv.Group == version.Group {
			e.APIVersion = version.String()
		}
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": m.ManagedFields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": m.ResourceVersion},
	})
	if err != nil {
		return err
	}
	_, err = c.metadataOf(t).Patch(ctx, t.id.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: inventory.FieldManager})
	return err
}
