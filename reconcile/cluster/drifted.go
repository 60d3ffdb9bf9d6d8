// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"lamplighter.dev/inventory"
)

// changedFields lists the paths at which two answers of the API server differ,
// sorted, as the API server writes them. It quotes no values but names in lists.
func changedFields(live, merged *unstructured.Unstructured) []string {
	var out []string
	walk("", contentOf(live), contentOf(merged), func(path string) {
		annotation := strings.TrimPrefix(path, ".metadata.annotations.")
		if !slices.Contains(countedAnnotations, annotation) {
			out = append(out, path)
		}
	})
	slices.Sort(out)
	return out
}

// walk calls differ for each of the shortest paths at which a and b differ. Lists
// of things that have names are compared by name, others as a whole.
func walk(path string, a, b any, differ func(string)) {
	if equality.Semantic.DeepEqual(a, b) {
		return
	}
	if a, b, ok := bothMaps(a, b); ok {
		for _, key := range keysOf(a, b) {
			walk(path+"."+key, a[key], b[key], differ)
		}
		return
	}
	if a, b, ok := bothNamed(a, b); ok {
		for _, name := range keysOf(a, b) {
			walk(fmt.Sprintf("%s[name=%q]", path, name), a[name], b[name], differ)
		}
		return
	}
	differ(path)
}

func bothMaps(a, b any) (map[string]any, map[string]any, bool) {
	x, isMap := a.(map[string]any)
	y, isMapToo := b.(map[string]any)
	return x, y, isMap && isMapToo
}

func keysOf(a, b map[string]any) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func bothNamed(a, b any) (map[string]any, map[string]any, bool) {
	x, named := byName(a)
	y, namedToo := byName(b)
	return x, y, named && namedToo
}

// byName are the entries of a list by their names, if each has one of its own.
func byName(list any) (map[string]any, bool) {
	entries, ok := list.([]any)
	if !ok {
		return nil, false
	}
	out := make(map[string]any, len(entries))
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		name, ok := entry["name"].(string)
		if _, twice := out[name]; !ok || twice {
			return nil, false
		}
		out[name] = entry
	}
	return out, true
}

// changedBy names the manager that made the live object another than the merged
// one: of those that hold a field which differs the one that wrote last, else, as
// when a field was removed, whoever wrote the object last.
func changedBy(live, merged *unstructured.Unstructured) string {
	var guilty []metav1.ManagedFieldsEntry
	for _, e := range live.GetManagedFields() {
		if fields, err := fieldsOf(e); err == nil && holdsDifference(fields, live, merged) {
			guilty = append(guilty, e)
		}
	}
	if name := lastOf(guilty); name != "" {
		return name
	}
	return lastOf(live.GetManagedFields())
}

func holdsDifference(fields *fieldpath.Set, live, merged *unstructured.Unstructured) bool {
	found := false
	fields.Leaves().Iterate(func(path fieldpath.Path) {
		before, inLive := resolve(live.Object, path)
		after, inMerged := resolve(merged.Object, path)
		if inLive != inMerged || !equality.Semantic.DeepEqual(before, after) {
			found = true
		}
	})
	return found
}

// fieldsOf are the fields that a manager holds.
func fieldsOf(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := &fieldpath.Set{}
	if e.FieldsV1 == nil {
		return fields, nil
	}
	err := fields.FromJSON(e.FieldsV1.GetRawReader())
	return fields, err
}

// resolve finds the value at a path as field managers have it.
func resolve(at any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		var ok bool
		if at, ok = step(at, element); !ok {
			return nil, false
		}
	}
	return at, true
}

func step(at any, element fieldpath.PathElement) (any, bool) {
	if element.FieldName != nil {
		fields, _ := at.(map[string]any)
		next, ok := fields[*element.FieldName]
		return next, ok
	}
	entries, _ := at.([]any)
	if i := indexOf(entries, element); i >= 0 {
		return entries[i], true
	}
	return nil, false
}

// indexOf is where in a list the entry is that an element of a path means; -1 if
// there is none.
func indexOf(entries []any, element fieldpath.PathElement) int {
	for i, entry := range entries {
		switch {
		case element.Index != nil && *element.Index == i,
			element.Value != nil && value.Equals(*element.Value, value.NewValueInterface(entry)),
			element.Key != nil && hasKey(entry, *element.Key):
			return i
		}
	}
	return -1
}

func hasKey(entry any, key value.FieldList) bool {
	fields, ok := entry.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range key {
		if v, ok := fields[k.Name]; !ok || !value.Equals(k.Value, value.NewValueInterface(v)) {
			return false
		}
	}
	return true
}

// lastOf names the manager, other than us and the status writers, that wrote
// last.
func lastOf(entries []metav1.ManagedFieldsEntry) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.Manager == "" || e.Manager == inventory.FieldManager || e.Subresource == "status" || e.Time == nil {
			continue
		}
		if last.Time == nil || last.Time.Before(e.Time) {
			last = e
		}
	}
	return last.Manager
}
