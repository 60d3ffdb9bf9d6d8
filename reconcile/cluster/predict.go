// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"lamplighter.dev/inventory"
)

// foretell is what an apply makes of a live object of which former managers hold
// fields. Merged is what a dry run says, and that keeps those fields: they become
// ours only with the real apply, and what Git does not have goes away then. The API
// server is asked about the object without it, so that defaults come back, and what
// it would refuse is known before anything is sent.
func (c *Cluster) foretell(ctx context.Context, t target, live, merged *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	left := merged.DeepCopy()
	leaving, err := c.leaving(merged, t.object)
	if err != nil {
		return nil, err
	}
	for _, path := range leaving {
		cut(left.Object, path)
	}
	patch, err := json.Marshal(replacing(live.Object, left.Object))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inventory.Format(t.id), err)
	}
	var foretold *unstructured.Unstructured
	err = c.try(ctx, func(ctx context.Context) (err error) {
		foretold, err = c.resource(t).Patch(ctx, t.id.Name, types.JSONPatchType, patch,
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: inventory.FieldManager})
		return err
	})
	return foretold, err
}

// leaving are the paths that go once the fields of former managers are ours, the
// shortest first: nobody else holds them, nor anything in them. What Git ignores
// stays theirs.
func (c *Cluster) leaving(merged, git *unstructured.Unstructured) ([]fieldpath.Path, error) {
	ignored, err := inventory.Ignored(git)
	if err != nil {
		return nil, err
	}
	_, kept, err := c.leftToFormer(merged.GetManagedFields(), ignored)
	if err != nil {
		return nil, err
	}
	former := fieldpath.NewSet()
	for _, e := range merged.GetManagedFields() {
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", e.Manager, err)
		}
		if c.isFormer(e) {
			former = former.Union(fields)
		} else {
			kept = kept.Union(fields)
		}
	}
	var paths []fieldpath.Path
	for path := range withParents(former).All() {
		if !isKey(path) && !kept.Has(path) && below(kept, path).Empty() {
			paths = append(paths, path.Copy())
		}
	}
	slices.SortStableFunc(paths, func(a, b fieldpath.Path) int { return len(a) - len(b) })
	return paths, nil
}

// withParents adds the fields that others are in: they go with the last of those.
func withParents(fields *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	for path := range fields.All() {
		out.Insert(path.Copy())
		for i := 1; i < len(path); i++ {
			if path[i-1].FieldName != nil {
				out.Insert(path[:i].Copy())
			}
		}
	}
	return out
}

// isKey says that a path leads to what an item of a list is known by. It goes with
// the item.
func isKey(path fieldpath.Path) bool {
	n := len(path)
	return n > 1 && path[n-2].Key != nil && path[n-1].FieldName != nil &&
		slices.ContainsFunc(*path[n-2].Key, func(f value.Field) bool { return f.Name == *path[n-1].FieldName })
}

// cut is v without what is at a path.
func cut(v any, path fieldpath.Path) any {
	switch parent := v.(type) {
	case map[string]any:
		name := path[0].FieldName
		if name == nil {
			return v
		}
		if child, found := parent[*name]; found && len(path) > 1 {
			parent[*name] = cut(child, path[1:])
		} else {
			delete(parent, *name)
		}
	case []any:
		i := indexOf(parent, path[0])
		switch {
		case i < 0:
		case len(path) == 1:
			return slices.Delete(parent, i, i+1)
		default:
			parent[i] = cut(parent[i], path[1:])
		}
	}
	return v
}

// An edit is one operation of a JSON patch.
type edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// replacing are the edits that put the content of one object in the place of
// another's, what the API server writes by itself aside.
func replacing(live, with map[string]any) []edit {
	edits := replacingFields(nil, live, with, func(field string) bool {
		return !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field)
	})
	was, _ := live["metadata"].(map[string]any)
	becomes, _ := with["metadata"].(map[string]any)
	return append(edits, replacingFields(inventory.Pointer{"metadata"}, was, becomes, func(field string) bool {
		return slices.Contains([]string{"labels", "annotations", "finalizers", "ownerReferences"}, field)
	})...)
}

func replacingFields(at inventory.Pointer, live, with map[string]any, counts func(field string) bool) []edit {
	path := func(field string) string { return append(slices.Clone(at), field).String() }
	var edits []edit
	for _, field := range slices.Sorted(maps.Keys(with)) {
		if counts(field) {
			edits = append(edits, edit{"add", path(field), with[field]})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(live)) {
		if _, stays := with[field]; counts(field) && !stays {
			edits = append(edits, edit{"remove", path(field), nil})
		}
	}
	return edits
}
