// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
)

// placementChanged says that a change of a DaemonSet changes on which nodes its
// pods may run. The DaemonSet controller deletes those that may not at once.
func placementChanged(c inventory.Change) bool {
	if c.ID.GroupKind != daemonSetKind || c.Live == nil || c.Merged == nil {
		return false
	}
	for _, field := range []string{"nodeSelector", "affinity", "tolerations", "nodeName"} {
		if !reflect.DeepEqual(podField(c.Live, field), podField(c.Merged, field)) {
			return true
		}
	}
	return false
}

// podField is a field of the pod template's spec; nil if it is not there.
func podField(o *unstructured.Unstructured, field string) any {
	value, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", field)
	if err != nil {
		return nil // not an object on the way there, so there is no such field
	}
	return value
}
