// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
)

// Govern records the policy of every DaemonSet with the documents that say when
// it may be disturbed, so that they outlive their removal from the fleet. Of the
// DaemonSets that are live as the fleet wants them it records that they are
// known, also when they are in no policy: a deletion need not wait then. Those
// that have left their policy have left it for good.
func (l Ledger) Govern(set policy.Set, live ...types.NamespacedName) Ledger {
	governed := maps.Clone(l.Governed)
	if governed == nil {
		governed = map[string]Governance{}
	}
	for _, p := range set.Upgrades {
		if len(p.DaemonSets) == 0 {
			continue
		}
		docs := set.Governing(p.DaemonSets[0]) // the same for all of them
		for _, name := range p.DaemonSets {
			g := governed[name.String()]
			g.Policy, g.Documents, g.Left = p.Name, docs, false
			governed[name.String()] = g
		}
	}
	for _, name := range live {
		if _, inPolicy := set.For(name); !inPolicy {
			g := governed[name.String()]
			g.Left = g.Policy != ""
			governed[name.String()] = g
		}
	}
	l.Governed = governed
	return l
}

// govern keeps the names of policies right, and drops what is kept of
// DaemonSets that no longer exist and that no policy names.
func (l *Ledger) govern(f *fleet, policies []policy.UpgradePolicy) {
	if l.Governed == nil {
		l.Governed = map[string]Governance{}
	}
	kept := make(map[string]bool, len(l.Governed))
	for i := range f.sets {
		kept[f.sets[i].key] = true
	}
	for _, p := range policies {
		for _, name := range p.DaemonSets {
			key := name.String()
			kept[key] = true
			if g := l.Governed[key]; g.Policy != p.Name {
				g.Policy, g.Left = p.Name, false
				l.Governed[key] = g
			}
		}
	}
	maps.DeleteFunc(l.Governed, func(name string, _ Governance) bool { return !kept[name] })
}
