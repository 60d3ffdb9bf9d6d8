// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lamplighter.dev/inventory"
)

// ours is an object without the fields that it ignores and that others have made
// theirs. What it asks of the API server is true of one resourceVersion, which is
// the only one that the result can be applied to.
func (c *Cluster) ours(ctx context.Context, t target, uid types.UID) (target, error) {
	if uid == "" {
		return t, nil
	}
	ignored, err := inventory.Ignored(t.object)
	if err != nil {
		return t, &inventory.RejectedError{Message: inventory.IgnoreAnnotation + ": " + err.Error()}
	}
	if len(ignored) == 0 {
		return t, nil
	}
	var live *unstructured.Unstructured
	err = c.try(ctx, func(ctx context.Context) (err error) {
		live, err = c.resource(t).Get(ctx, t.id.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != uid {
		return t, nil // the apply says so
	}
	if err != nil {
		return t, err
	}
	t.object = t.object.DeepCopy()
	if err := leaveToOthers(t.object, live, ignored); err != nil {
		return t, err
	}
	t.object.SetResourceVersion(live.GetResourceVersion())
	return t, nil
}

// leaveToOthers removes from an object what it ignores and others hold in the
// live one. What nobody holds was removed by somebody, if the object had been
// applied as Git has it now, and is removed too; else it is new.
func leaveToOthers(object, live *unstructured.Unstructured, ignored []inventory.Pointer) error {
	own, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		fields, err := fieldsOf(e)
		if err != nil {
			return err
		}
		if e.Manager == inventory.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			own = own.Union(fields)
		} else {
			others = others.Union(fields)
		}
	}
	within(others.Difference(own).Leaves(), ignored).Iterate(func(path fieldpath.Path) { remove(object.Object, path) })
	if live.GetAnnotations()[inventory.AppliedAnnotation] != object.GetAnnotations()[inventory.AppliedAnnotation] {
		return nil
	}
	held := own.Union(others)
	for _, pointer := range ignored {
		for _, path := range leaves(object.Object, pathOf(pointer)) {
			if !holds(held, path) {
				remove(object.Object, path)
			}
		}
	}
	return nil
}

func pathOf(pointer inventory.Pointer) fieldpath.Path {
	path := make(fieldpath.Path, len(pointer))
	for i := range pointer {
		path[i] = fieldpath.PathElement{FieldName: &pointer[i]}
	}
	return path
}

// leaves are the paths of all that is at a path and is no map.
func leaves(object map[string]any, path fieldpath.Path) []fieldpath.Path {
	at, found := resolve(object, path)
	if !found {
		return nil
	}
	fields, isMap := at.(map[string]any)
	if !isMap || len(fields) == 0 {
		return []fieldpath.Path{path}
	}
	var out []fieldpath.Path
	for name := range fields {
		out = append(out, leaves(object, append(path.Copy(), fieldpath.PathElement{FieldName: &name}))...)
	}
	return out
}

// holds reports whether a manager with these fields holds the one at a path: all
// of it, something in it, or something it is an inseparable part of.
func holds(fields *fieldpath.Set, path fieldpath.Path) bool {
	if fields.Has(path) || !below(fields, path).Empty() {
		return true
	}
	for i := 1; i < len(path); i++ {
		if fields.Has(path[:i]) && below(fields, path[:i]).Empty() {
			return true
		}
	}
	return false
}

func below(fields *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	for _, element := range path {
		fields = fields.WithPrefix(element)
	}
	return fields
}

// remove takes the field at a path out of an object, and with it the maps that
// are empty then.
func remove(object map[string]any, path fieldpath.Path) {
	for n := len(path); n > 0; n-- {
		parent, found := resolve(object, path[:n-1])
		fields, isMap := parent.(map[string]any)
		last := path[n-1].FieldName
		if !found || !isMap || last == nil {
			return
		}
		delete(fields, *last)
		if len(fields) > 0 {
			return
		}
	}
}

// leftToFormer are the fields of former managers that stay theirs: ignored ones
// that we do not hold.
func (c *Cluster) leftToFormer(managed []metav1.ManagedFieldsEntry, ignored []inventory.Pointer) ([]metav1.ManagedFieldsEntry, *fieldpath.Set, error) {
	own := fieldpath.NewSet()
	for _, e := range managed {
		if e.Manager != inventory.FieldManager {
			continue
		}
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, nil, err
		}
		own = own.Union(fields)
	}
	var kept []metav1.ManagedFieldsEntry
	all := fieldpath.NewSet()
	for _, e := range managed {
		if !c.isFormer(e) {
			continue
		}
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, nil, err
		}
		theirs := within(fields, ignored).Difference(own)
		if theirs.Empty() {
			continue
		}
		raw, err := theirs.ToJSON()
		if err != nil {
			return nil, nil, err
		}
		e.FieldsV1 = metav1.NewFieldsV1(string(raw))
		kept, all = append(kept, e), all.Union(theirs)
	}
	return kept, all, nil
}

// within are the fields that are ignored.
func within(fields *fieldpath.Set, ignored []inventory.Pointer) *fieldpath.Set {
	out := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if slices.ContainsFunc(ignored, func(p inventory.Pointer) bool { return isAt(path, p) }) {
			out.Insert(path.Copy())
		}
	})
	return out
}

func isAt(path fieldpath.Path, pointer inventory.Pointer) bool {
	if len(path) < len(pointer) {
		return false
	}
	for i, key := range pointer {
		if path[i].FieldName == nil || *path[i].FieldName != key {
			return false
		}
	}
	return true
}
