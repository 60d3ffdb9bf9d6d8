// SPDX-License-Identifier: Apache-2.0

package show

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/render"
)

// The words that stand for a Secret's values, as kubectl diff has them.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// maskSecrets hides the values of a Secret on both sides, and shows only
// whether they differ.
func maskSecrets(before, after *unstructured.Unstructured) {
	for _, field := range []string{"data", "stringData"} {
		was, becomes := secretValues(before, field), secretValues(after, field)
		for key, value := range becomes {
			old, existed := was[key]
			if !existed || reflect.DeepEqual(old, value) {
				becomes[key] = masked
				continue
			}
			was[key], becomes[key] = maskedBefore, maskedAfter
		}
		for key := range was {
			if was[key] != maskedBefore || becomes[key] != maskedAfter {
				was[key] = masked
			}
		}
	}
}

// maskAt hides what is at a path on both sides, and shows only whether it differs. An
// asterisk in the path is every key or entry.
func maskAt(before, after *unstructured.Unstructured, path []string) {
	var was, becomes any
	if before != nil {
		was = before.Object
	}
	if after != nil {
		becomes = after.Object
	}
	mask(was, becomes, path)
}

// mask answers what stands for both sides.
func mask(was, becomes any, path []string) (any, any) {
	if len(path) == 0 {
		return maskedPair(was, becomes)
	}
	wasList, wasIsList := was.([]any)
	becomesList, becomesIsList := becomes.([]any)
	if wasIsList || becomesIsList {
		for i := range max(len(wasList), len(becomesList)) {
			a, b := mask(entry(wasList, i), entry(becomesList, i), path[1:])
			set(wasList, i, a)
			set(becomesList, i, b)
		}
		return was, becomes
	}
	wasFields, _ := was.(map[string]any)
	becomesFields, _ := becomes.(map[string]any)
	for _, key := range keys(wasFields, becomesFields) {
		if path[0] != render.Every && path[0] != key {
			continue
		}
		a, b := mask(wasFields[key], becomesFields[key], path[1:])
		if _, there := wasFields[key]; there {
			wasFields[key] = a
		}
		if _, there := becomesFields[key]; there {
			becomesFields[key] = b
		}
	}
	return was, becomes
}

func maskedPair(was, becomes any) (any, any) {
	if was == nil || becomes == nil || reflect.DeepEqual(was, becomes) {
		return masked, masked
	}
	return maskedBefore, maskedAfter
}

func entry(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func set(list []any, i int, v any) {
	if i < len(list) {
		list[i] = v
	}
}

func keys(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Collect(maps.Keys(all))
}

// secretValues is a field of a Secret, which the caller may write to; nil for
// anything else. What should be a map and is none is masked at once.
func secretValues(obj *unstructured.Unstructured, field string) map[string]any {
	if obj == nil {
		return nil
	}
	if gvk := obj.GroupVersionKind(); gvk.Group != "" || gvk.Kind != "Secret" {
		return nil
	}
	value, found := obj.Object[field]
	if !found || value == nil {
		return nil
	}
	values, isMap := value.(map[string]any)
	if !isMap {
		obj.Object[field] = masked
	}
	return values
}
