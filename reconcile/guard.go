// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// references is the prune guard: what each orphan is still needed for. An old
// pod needs the ConfigMap it mounts at its next restart, whatever Git says by
// then, and so does every pod that the live template makes. A template that has
// not been observed yet may mention anything, and a revision to which a DaemonSet may
// go back needs what it needed. What pods need without naming it
// stays until every DaemonSet is as Git says, and rights for as long as an account
// that Git has dropped with them.
func references(obs Observation, vetoed map[inventory.ID]inventory.Veto) map[inventory.ID][]string {
	orphaned := map[inventory.ID][]inventory.ID{} // by the names that pods give them
	for _, o := range obs.Orphans {
		name := asNamed(o.ID)
		orphaned[name] = append(orphaned[name], o.ID)
	}
	if len(orphaned) == 0 {
		return nil
	}
	users := map[inventory.ID][]string{}
	use := func(ids []inventory.ID, user string) {
		for _, id := range ids {
			for _, orphan := range orphaned[id] {
				users[orphan] = append(users[orphan], user)
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
	for _, d := range obs.DaemonSets {
		if r, kept := d.RevisionAt(backTo(obs, d)); kept {
			use(r.References, "revision "+r.Hash+" of "+inventory.Format(daemonSetID(d.Name))+", to which it may go back")
		}
	}
	for _, p := range obs.Pods {
		use(p.References, "pod "+p.Name.String())
	}
	useRights(obs.Orphans, users)
	for _, ds := range unfinished(obs, vetoed) {
		for id := range orphaned {
			if granted[id.GroupKind] && (id.Namespace == "" || id.Namespace == ds.Namespace || id.GroupKind.Group == rightsGroup) {
				use([]inventory.ID{id}, "pods of "+inventory.Format(ds)+" perhaps, which is not yet as Git says")
			}
		}
	}
	return users
}

// asNamed is how pods know an object. A kustomization's namespace is on those too that
// are in none, if kustomize does not know their kind: two IDs may be one object.
func asNamed(id inventory.ID) inventory.ID {
	if clusterScoped[id.GroupKind] {
		id.Namespace = ""
	}
	return id
}

var clusterScoped = map[schema.GroupKind]bool{
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}: true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:               true,
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:            true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:        true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:               true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:            true,
}

// useRights keeps the rights that an account in use may have. A binding of any
// namespace can name it.
func useRights(orphans []inventory.Live, users map[inventory.ID][]string) {
	for _, account := range orphans {
		if account.ID.GroupKind != serviceAccountKind || len(users[account.ID]) == 0 {
			continue
		}
		for _, right := range orphans {
			if right.ID.GroupKind.Group == rightsGroup {
				users[right.ID] = append(users[right.ID], inventory.Format(account.ID)+" perhaps, which is in use")
			}
		}
	}
}

// backTo is the revision that a DaemonSet goes back to, or does when its policy
// halts; "" when there is none but its own.
func backTo(obs Observation, d health.DaemonSet) string {
	to := ""
	if mayRevert(obs, d.Name) {
		to = obs.State.Ledger.Governed[d.Name.String()].Settled
	}
	if r := obs.State.Ledger.Reversal(d.Name); r != nil {
		to = r.To
	}
	if to == d.Revision && d.RevisionObserved {
		return "" // its template is the live one
	}
	return to
}

var serviceAccountKind = schema.GroupKind{Kind: "ServiceAccount"}

const rightsGroup = "rbac.authorization.k8s.io"

// granted are the kinds that pods need without naming them: what lets them act,
// be reached, and mount. Which pods do is not known.
var granted = map[schema.GroupKind]bool{
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: true,
	{Group: rightsGroup, Kind: "ClusterRole"}:           true,
	{Group: rightsGroup, Kind: "ClusterRoleBinding"}:    true,
	{Group: rightsGroup, Kind: "Role"}:                  true,
	{Group: rightsGroup, Kind: "RoleBinding"}:           true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:        true,
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:     true,
}

// unfinished are our DaemonSets that are not yet as Git says: what waits to be
// applied or deleted, what has pods of another revision than its own, and what goes
// back to a revision or may.
func unfinished(obs Observation, vetoed map[inventory.ID]inventory.Veto) []inventory.ID {
	outdated := map[types.UID]bool{}
	sets := map[types.UID]*health.DaemonSet{}
	for i := range obs.DaemonSets {
		d := &obs.DaemonSets[i]
		sets[d.UID], outdated[d.UID] = d, !d.RevisionObserved
	}
	for _, p := range obs.Pods {
		if d := sets[p.Owner]; d != nil && !d.UpToDate(p) {
			outdated[p.Owner] = true
		}
	}
	changed, marked := map[inventory.ID]bool{}, reversals(obs)
	for _, c := range obs.Changes {
		changed[c.ID] = c.TemplateChanged || c.Err != nil
	}
	var out []inventory.ID
	for _, d := range obs.DaemonSets {
		id := daemonSetID(d.Name)
		_, held := vetoed[id]
		_, back := marked[id]
		if obs.State.Inventory.Contains(id) && (held || changed[id] || outdated[d.UID] || back || backTo(obs, d) != "") {
			out = append(out, id)
		}
	}
	return out
}

// mentionable are the kinds that a pod template names.
var mentionable = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:                                        true,
	{Kind: "PersistentVolumeClaim"}:                            true,
	{Kind: "Secret"}:                                           true,
	{Kind: "ServiceAccount"}:                                   true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:        true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:               true,
	{Group: "resource.k8s.io", Kind: "ResourceClaim"}:          true,
	{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}:  true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:            true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}: true,
}
