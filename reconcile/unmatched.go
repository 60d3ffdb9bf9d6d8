// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// Unmatched lists what a fleet selects and this cluster does not have: the
// selectors of windows, waves and DaemonSets that match no node, and the DaemonSets
// that a policy names and nobody has. Each is a line that names its object first;
// they are sorted.
func Unmatched(obs Observation) []string {
	var found []string
	for _, w := range obs.Policies.Windows {
		if w.Window.Selector != nil && !anyNode(obs.Nodes, w.Window.Selector) {
			found = append(found, fmt.Sprintf("%s/%s: spec.nodeSelector matches no node of this cluster: %s", policy.KindMaintenanceWindow, w.Name, w.Window.Selector))
		}
	}
	exist := map[types.NamespacedName]bool{}
	for _, d := range wanted(obs) {
		exist[d.Name] = true
		placer := health.NewPlacer(d)
		runs := slices.ContainsFunc(obs.Nodes, func(n health.Node) bool { return placer.On(&n).ShouldRun })
		if !runs {
			found = append(found, fmt.Sprintf("%s: should run on no node of this cluster", inventory.Format(daemonSetID(d.Name))))
		}
	}
	for _, p := range obs.Policies.Upgrades {
		for _, w := range p.Waves {
			if w.Selector != nil && !anyNode(obs.Nodes, w.Selector) {
				found = append(found, fmt.Sprintf("%s/%s: spec.waves: the nodeSelector of %s matches no node of this cluster: %s", policy.KindUpgradePolicy, p.Name, w.Name, w.Selector))
			}
		}
		for _, name := range p.DaemonSets {
			if !exist[name] {
				found = append(found, fmt.Sprintf("%s/%s: DaemonSet %s does not exist", policy.KindUpgradePolicy, p.Name, name))
			}
		}
	}
	slices.Sort(found)
	return found
}

// wanted are the DaemonSets that there are to be and that a policy or Git knows,
// with the templates that they are to have.
func wanted(obs Observation) []health.DaemonSet {
	live := map[types.NamespacedName]health.DaemonSet{}
	for _, d := range obs.DaemonSets {
		live[d.Name] = d
	}
	var out []health.DaemonSet
	for _, c := range obs.Changes {
		if c.ID.GroupKind != daemonSetKind {
			continue
		}
		d := live[daemonSetName(c.ID)]
		d.Name = daemonSetName(c.ID)
		if template := templateOf(c); template != nil && c.Kind != inventory.None {
			d.Template = template
		}
		if d.Template != nil {
			out = append(out, d)
		}
		delete(live, d.Name)
	}
	for name, d := range live {
		if _, governed := obs.Policies.For(name); governed {
			out = append(out, d)
		}
	}
	return out
}

func anyNode(nodes []health.Node, s labels.Selector) bool {
	return slices.ContainsFunc(nodes, func(n health.Node) bool { return s.Matches(labels.Set(n.Labels)) })
}
