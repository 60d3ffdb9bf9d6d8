// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// references is the prune guard: what each orphan is still needed for. An old
// pod needs the ConfigMap it mounts at its next restart, whatever Git says by
// then, and so does every pod that the live template makes. A template that has
// not been observed yet may mention anything.
func references(obs Observation) map[inventory.ID][]string {
	orphaned := map[inventory.ID]bool{}
	for _, o := range obs.Orphans {
		orphaned[o.ID] = true
	}
	if len(orphaned) == 0 {
		return nil
	}
	users := map[inventory.ID][]string{}
	use := func(ids []inventory.ID, user string) {
		for _, id := range ids {
			if orphaned[id] {
				users[id] = append(users[id], user)
			}
		}
	}
	for _, d := range obs.DaemonSets {
		if d.Deleting {
			continue
		}
		template := "the template of " + inventory.Format(daemonSetID(d.Name))
		use(health.References(d.Template, d.Name.Namespace), template)
		if d.RevisionObserved {
			continue
		}
		for id := range orphaned {
			if mentionable[id.GroupKind] && (id.Namespace == "" || id.Namespace == d.Name.Namespace) {
				use([]inventory.ID{id}, template+", which is not observed yet")
			}
		}
	}
	for _, p := range obs.Pods {
		use(p.References, "pod "+p.Name.String())
	}
	return users
}

// mentionable are the kinds that a pod template names.
var mentionable = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:                                 true,
	{Kind: "PersistentVolumeClaim"}:                     true,
	{Kind: "Secret"}:                                    true,
	{Kind: "ServiceAccount"}:                            true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:        true,
}
