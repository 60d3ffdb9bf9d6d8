// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Governing is the documents that say when a DaemonSet may be disturbed: the
// UpgradePolicy first, then the windows and freezes it obeys. Kept beside the
// DaemonSet, they outlive their removal from the fleet. It is nil for a
// DaemonSet in no policy.
func (s Set) Governing(ds types.NamespacedName) []Document {
	p, ok := s.For(ds)
	if !ok {
		return nil
	}
	docs := []Document{p.Source}
	for _, name := range p.WindowNames {
		for _, w := range s.Windows {
			if w.Name == name {
				docs = append(docs, w.Source)
			}
		}
	}
	for _, f := range s.Freezes {
		if f.appliesTo(p.Name) {
			docs = append(docs, f.Source)
		}
	}
	return docs
}

// ParseGovernance reads what Governing gave. Whether its DaemonSets still exist
// does not matter: the ones that the policy names are listed as it names them,
// selectors select none. On an error the policy is shut for ever.
func ParseGovernance(docs []Document) (UpgradePolicy, error) {
	c := &collection{}
	c.read(docs)
	c.resolveFreezes()
	c.resolveCalendars()
	var faults []error
	for _, p := range c.report.sorted() {
		if p.Level == Error {
			faults = append(faults, errors.New(p.String()))
		}
	}
	if len(c.upgrades) != 1 {
		faults = append(faults, fmt.Errorf("%d UpgradePolicies where one governs", len(c.upgrades)))
	}
	if len(faults) > 0 {
		return UpgradePolicy{}, errors.Join(faults...)
	}
	u := c.upgrades[0]
	for _, ref := range u.daemonSets {
		if ref.selector == nil {
			u.DaemonSets = append(u.DaemonSets, types.NamespacedName{Namespace: ref.namespace, Name: ref.name})
		}
	}
	return u.UpgradePolicy, nil
}
