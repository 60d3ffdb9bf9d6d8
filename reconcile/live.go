// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// liveDaemonSets are those of the fleet whose template in Git is the live one.
func liveDaemonSets(obs Observation) []types.NamespacedName {
	var names []types.NamespacedName
	for _, c := range obs.Changes {
		if c.ID.GroupKind == daemonSetKind && c.Err == nil && c.Kind != inventory.Create && !c.TemplateChanged {
			names = append(names, daemonSetName(c.ID))
		}
	}
	return names
}
