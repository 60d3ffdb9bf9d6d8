// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// references is the prune guard: what each orphan is still needed for. An old
// pod needs the ConfigMap it mounts at its next restart, whatever Git says by
// then, and so does every pod that the live template makes.
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
		if !d.Deleting {
			use(health.References(d.Template, d.Name.Namespace), "the template of "+inventory.Format(daemonSetID(d.Name)))
		}
	}
	for _, p := range obs.Pods {
		use(p.References, "pod "+p.Name.String())
	}
	return users
}
