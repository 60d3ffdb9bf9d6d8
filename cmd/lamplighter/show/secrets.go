// SPDX-License-Identifier: Apache-2.0

package show

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
