// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Documents is everything the set was read from, sorted, with the DaemonSets of
// each UpgradePolicy written out: ParseRecorded reads it without the fleet.
func (s Set) Documents() []Document {
	var docs []Document
	for _, w := range s.Windows {
		docs = append(docs, w.Source)
	}
	for _, f := range s.Freezes {
		docs = append(docs, f.Source)
	}
	for _, u := range s.Upgrades {
		docs = append(docs, u.document())
	}
	return docs
}

// Governing is the part of Documents that says when a DaemonSet may be
// disturbed: its UpgradePolicy first, then the windows and freezes which that
// obeys. Kept beside the DaemonSet, it outlives its removal from the fleet. It
// is nil for a DaemonSet in no policy.
func (s Set) Governing(ds types.NamespacedName) []Document {
	p, ok := s.For(ds)
	if !ok {
		return nil
	}
	docs := []Document{p.document()}
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

// document is the source with the DaemonSets that its references and selectors
// mean. The source itself is left as it is.
func (p UpgradePolicy) document() Document {
	spec, ok := p.Source.Object["spec"].(map[string]any)
	if !ok {
		return p.Source
	}
	var list []any
	for _, ds := range p.DaemonSets {
		list = append(list, map[string]any{"namespace": ds.Namespace, "name": ds.Name})
	}
	d := p.Source
	d.Object, spec = maps.Clone(d.Object), maps.Clone(spec)
	spec["daemonSets"] = list
	d.Object["spec"] = spec
	return d
}

// ParseRecorded reads what Documents gave. It takes the DaemonSets as they are
// written there and asks nothing about them; a selector selects none.
func ParseRecorded(docs []Document, now time.Time) (Set, []Problem) {
	c := recorded(docs)
	c.warn(now)
	return c.set(), c.report.sorted()
}

// ParseGovernance reads what Governing gave. On an error the policy is zero,
// and its calendar shut for ever.
func ParseGovernance(docs []Document) (UpgradePolicy, error) {
	c := recorded(docs)
	var faults []error
	for _, p := range c.report.sorted() {
		if p.Level == Error {
			faults = append(faults, errors.New(p.String()))
		}
	}
	if len(c.upgrades) != 1 {
		faults = append(faults, fmt.Errorf("%d objects of kind %s where one governs", len(c.upgrades), KindUpgradePolicy))
	}
	if len(faults) > 0 {
		return UpgradePolicy{}, errors.Join(faults...)
	}
	return c.upgrades[0].UpgradePolicy, nil
}

// recorded reads documents that stand on their own.
func recorded(docs []Document) *collection {
	c := &collection{}
	c.read(docs)
	c.resolveFreezes()
	c.resolveCalendars()
	for i := range c.upgrades {
		u := &c.upgrades[i]
		for _, ref := range u.daemonSets {
			if ref.selector == nil {
				u.DaemonSets = append(u.DaemonSets, types.NamespacedName{Namespace: ref.namespace, Name: ref.name})
			}
		}
	}
	return c
}
