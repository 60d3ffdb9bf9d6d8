// SPDX-License-Identifier: Apache-2.0

package rollout

import "lamplighter.dev/reconcile/policy"

// govern writes down which policy governs each DaemonSet.
func (b *book) govern(l *Ledger, policies []policy.UpgradePolicy) {
	governed := make(map[string]Governance, len(l.Governed))
	for name, g := range l.Governed {
		governed[name] = g
	}
	for _, p := range policies {
		for _, name := range p.DaemonSets {
			g := governed[name.String()]
			g.Policy = p.Name
			governed[name.String()] = g
		}
	}
	l.Governed = governed
}
