// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lamplighter.dev/inventory"
)

// likely is what an apply would make of a live object, as far as that can be told
// without the API server: what Git says takes the place of what is there, and what
// only we have set and Git has dropped goes. Defaults stay as they are.
func likely(live, git *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ours, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		fields, err := fieldsOf(e)
		switch {
		case err != nil:
			return nil, fmt.Errorf("managed fields of %s: %w", e.Manager, err)
		case e.Manager == inventory.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply:
			ours = ours.Union(fields)
		default:
			others = others.Union(fields)
		}
	}
	out := live.DeepCopy()
	for path := range ours.All() {
		_, stays := resolve(git.Object, path)
		if !stays && !isKey(path) && !others.Has(path) && below(others, path).Empty() {
			cut(out.Object, path)
		}
	}
	out.Object = over(out.Object, git.DeepCopy().Object, ours.Leaves()).(map[string]any)
	return out, nil
}

// over puts what Git says over what there is. What was applied as one thing is as
// Git has it.
func over(there, git any, applied *fieldpath.Set) any {
	if fields, ours, ok := bothMaps(there, git); ok {
		for name, value := range ours {
			element := fieldpath.PathElement{FieldName: &name}
			if !applied.Members.Has(element) {
				value = over(fields[name], value, applied.WithPrefix(element))
			}
			fields[name] = value
		}
		return fields
	}
	entries, isList := there.([]any)
	ours, isListToo := git.([]any)
	if !isList || !isListToo {
		return git
	}
	if was, becomes, named := bothNamed(there, git); named {
		return overNamed(entries, ours, was, becomes)
	}
	if len(entries) != len(ours) {
		return git
	}
	for i := range ours {
		ours[i] = over(entries[i], ours[i], fieldpath.NewSet())
	}
	return ours
}

// overNamed keeps the entries of a list that Git does not name: they are somebody
// else's.
func overNamed(entries, ours []any, was, becomes map[string]any) []any {
	for i, entry := range entries {
		if ours, stays := becomes[nameOf(entry)]; stays {
			entries[i] = over(entry, ours, fieldpath.NewSet())
		}
	}
	for _, entry := range ours {
		if _, there := was[nameOf(entry)]; !there {
			entries = append(entries, entry)
		}
	}
	return entries
}

func nameOf(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
