// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// Strangers are the DaemonSets of whose pods no decision depends, and "" for pods of
// none: those that no policy governs and that are not in Git nor owned. While something
// may have to be pruned there are none, since the pods of all may use it.
func (r Report) Strangers() []types.UID {
	obs := r.Observation
	if len(obs.Orphans) > 0 {
		return nil
	}
	known := map[types.NamespacedName]bool{}
	for _, p := range obs.Policies.Upgrades {
		for _, name := range p.DaemonSets {
			known[name] = true
		}
	}
	for _, c := range obs.Changes {
		if c.ID.GroupKind == daemonSetKind {
			known[nameOf(c.ID)] = true
		}
	}
	strangers := []types.UID{""}
	for _, d := range obs.DaemonSets {
		if !known[d.Name] && !r.After.Inventory.Contains(daemonSetID(d.Name)) {
			strangers = append(strangers, d.UID)
		}
	}
	slices.Sort(strangers)
	return strangers
}

func nameOf(id inventory.ID) types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}
