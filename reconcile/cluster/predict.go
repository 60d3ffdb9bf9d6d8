// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"lamplighter.dev/inventory"
)

// predict takes out of a dry run what goes only with the real apply. Once the
// fields of former managers are ours, those that Git does not have go away, but for
// what a new object would have too: defaults come back. The pod template is that of
// a new object. If it cannot be found out, the template is dropped: it counts as
// changed.
func (c *Cluster) predict(ctx context.Context, t target, merged *unstructured.Unstructured) {
	template := t.id.GroupKind == daemonSetKind
	created, err := c.dryCreate(ctx, t)
	if err == nil {
		err = c.dropLeaving(merged, t.object, created.Object)
	}
	if err == nil && template {
		err = copyTemplate(created, merged)
	}
	if err == nil {
		return
	}
	c.opts.Log.Debug("what an adoption changes is not predicted", "object", inventory.Format(t.id), "err", refusal(t.id.GroupKind, err))
	if template {
		unstructured.RemoveNestedField(merged.Object, "spec", "template")
	}
}

// dryCreate is what a new object of that content would be. It has another name,
// since its own is taken.
func (c *Cluster) dryCreate(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	twin := t.object.DeepCopy()
	twin.SetName(twin.GetName()[:min(len(twin.GetName()), 200)] + "-dry-run")
	var created *unstructured.Unstructured
	err := c.try(ctx, func(ctx context.Context) (err error) {
		created, err = c.resource(t).Create(ctx, twin, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: inventory.FieldManager})
		return err
	})
	return created, err
}

func copyTemplate(from, to *unstructured.Unstructured) error {
	template, _, err := unstructured.NestedFieldCopy(from.Object, "spec", "template")
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(to.Object, template, "spec", "template")
}

// dropLeaving removes the fields that nobody holds any more once those of former
// managers are ours. What a new object has is then as there. What Git ignores stays
// theirs.
func (c *Cluster) dropLeaving(obj, git *unstructured.Unstructured, created map[string]any) error {
	ignored, err := inventory.Ignored(git)
	if err != nil {
		return err
	}
	_, kept, err := c.leftToFormer(obj.GetManagedFields(), ignored)
	if err != nil {
		return err
	}
	former := fieldpath.NewSet()
	for _, e := range obj.GetManagedFields() {
		fields, err := fieldsOf(e)
		if err != nil {
			return fmt.Errorf("managed fields of %s: %w", e.Manager, err)
		}
		if c.isFormer(e) {
			former = former.Union(fields)
		} else {
			kept = kept.Union(fields)
		}
	}
	leaves := former.Leaves()
	var paths []fieldpath.Path
	for path := range former.Difference(kept).All() {
		paths = append(paths, path.Copy())
	}
	slices.SortStableFunc(paths, func(a, b fieldpath.Path) int { return len(b) - len(a) })
	for _, path := range paths {
		whole := leaves.Has(path) && below(kept, path).Empty()
		anew, comesBack := resolve(created, path)
		switch {
		case isKey(path), comesBack && !whole:
		case comesBack:
			put(obj.Object, path, anew)
		default:
			without(obj.Object, path, whole)
		}
	}
	return nil
}

// put replaces the field that a path leads to.
func put(v any, path fieldpath.Path, to any) {
	last := len(path) - 1
	parent, _ := resolve(v, path[:last])
	if fields, ok := parent.(map[string]any); ok && path[last].FieldName != nil {
		fields[*path[last].FieldName] = to
	}
}

// without removes what is at a path: all of it if it is whole, else only if nothing
// is in it. It returns what is left, and whether that is nothing.
func without(v any, path fieldpath.Path, whole bool) (left any, nothing bool) {
	if len(path) == 0 {
		return v, whole || isEmpty(v)
	}
	child, ok := step(v, path[0])
	if !ok || path[0].Key == nil && path[0].FieldName == nil { // members of sets stay
		return v, false
	}
	child, gone := without(child, path[1:], whole)
	switch parent := v.(type) {
	case map[string]any:
		parent[*path[0].FieldName] = child
		if gone {
			delete(parent, *path[0].FieldName)
		}
	case []any:
		i := slices.IndexFunc(parent, func(item any) bool { return hasKey(item, *path[0].Key) })
		parent[i] = child
		if gone || len(path) == 1 && len(child.(map[string]any)) == len(*path[0].Key) {
			gone = true
			v = slices.Delete(parent, i, i+1)
		}
	}
	return v, gone && isEmpty(v)
}

// isKey says that a path leads to what an item of a list is known by. It goes with
// the item.
func isKey(path fieldpath.Path) bool {
	n := len(path)
	return n > 1 && path[n-2].Key != nil && path[n-1].FieldName != nil &&
		slices.ContainsFunc(*path[n-2].Key, func(f value.Field) bool { return f.Name == *path[n-1].FieldName })
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
