// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"lamplighter.dev/inventory"
)

// formerManagers are who owns the fields of an object that kubectl applied on
// the client, or that was made before field managers were recorded.
var formerManagers = sets.New("kubectl-client-side-apply", "kubectl-create", "before-first-apply")

// isFormer reports whether an entry has to be merged into ours: that of a person
// or of nobody before the object was ours, or of a tool that we take over from.
func (c *Cluster) isFormer(e metav1.ManagedFieldsEntry) bool {
	if e.Subresource != "" {
		return false
	}
	return c.takesOver(e.Manager) || e.Operation == metav1.ManagedFieldsOperationUpdate && formerManagers.Has(e.Manager)
}

// hasFormer reports whether former managers hold fields that are to be ours.
func (c *Cluster) hasFormer(live, object *unstructured.Unstructured) bool {
	ignored, err := inventory.Ignored(object)
	for _, e := range live.GetManagedFields() {
		if !c.isFormer(e) {
			continue
		}
		fields, fieldsErr := fieldsOf(e)
		if err != nil || fieldsErr != nil || !fields.Difference(within(fields, ignored)).Empty() {
			return true
		}
	}
	return false
}

func (c *Cluster) takesOver(manager string) bool {
	return slices.Contains(c.opts.TakeOverFrom, manager)
}

// yields reports whether we take over a manager's fields: ours, those of a person
// who used kubectl, or nobody at all, before the object was ours, and those of a
// tool that we take over from.
func (c *Cluster) yields(manager string) bool {
	return manager == inventory.FieldManager || manager == "before-first-apply" ||
		manager == "kubectl" || strings.HasPrefix(manager, "kubectl-") || c.takesOver(manager)
}

// mergeFormer gives us the fields of former managers, so that those which Git
// does not have go away with the next apply. Merged later, they would stay for
// ever: nobody would own them.
func (c *Cluster) mergeFormer(ctx context.Context, t target) error {
	var err error
	for range tries { // a status written in between makes the patch stale
		err = c.tryServed(ctx, func(ctx context.Context) error { return c.mergeOnce(ctx, t) })
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}

func (c *Cluster) mergeOnce(ctx context.Context, t target) error {
	m, err := c.metadataOf(t).Get(ctx, t.id.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch, err := c.upgradePatch(m, t.object)
	if err != nil || patch == nil {
		return err
	}
	_, err = c.metadataOf(t).Patch(ctx, t.id.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: inventory.FieldManager})
	return err
}

// upgradePatch makes the fields of former managers ours, those aside that the
// object ignores; nil if there are none.
func (c *Cluster) upgradePatch(m *metav1.PartialObjectMetadata, object *unstructured.Unstructured) ([]byte, error) {
	ignored, err := inventory.Ignored(object)
	if err != nil {
		return nil, err
	}
	if len(ignored) == 0 {
		former := c.asUpdates(m)
		return csaupgrade.UpgradeManagedFieldsPatch(m, former, inventory.FieldManager)
	}
	kept, theirs, err := c.leftToFormer(m.GetManagedFields(), ignored)
	if err != nil {
		return nil, err
	}
	upgraded := m.DeepCopy()
	former := c.asUpdates(upgraded)
	if err := csaupgrade.UpgradeManagedFields(upgraded, former, inventory.FieldManager); err != nil {
		return nil, err
	}
	managed := upgraded.GetManagedFields()
	for i, e := range managed {
		if e.Manager != inventory.FieldManager || e.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, err
		}
		raw, err := fields.Difference(theirs).ToJSON()
		if err != nil {
			return nil, err
		}
		managed[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": append(managed, kept...)},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": m.GetResourceVersion()},
	})
}

// asUpdates returns the names of all former managers, once the entries of those that
// applied look as if they had updated: only such entries are merged. A manager may
// have done both, so they get a name of their own.
func (c *Cluster) asUpdates(m metav1.Object) sets.Set[string] {
	names := formerManagers.Clone().Insert(c.opts.TakeOverFrom...)
	fields := slices.Clone(m.GetManagedFields())
	for i := range fields {
		e := &fields[i]
		if e.Subresource != "" || e.Operation != metav1.ManagedFieldsOperationApply || !c.takesOver(e.Manager) {
			continue
		}
		e.Operation, e.Manager = metav1.ManagedFieldsOperationUpdate, e.Manager+" (applied)"
		names.Insert(e.Manager)
	}
	m.SetManagedFields(fields)
	return names
}
