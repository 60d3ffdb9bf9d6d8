// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"
)

// collection is a set while it is read.
type collection struct {
	report     report
	windows    []windowEntry
	freezes    []freezeEntry
	upgrades   []upgradeEntry
	daemonSets []DaemonSet
	// wholeFleet: a name that is not here is nowhere.
	wholeFleet bool
}

// Parse reads the policy documents of a fleet and resolves what they refer to.
// It lists all problems at once, sorted; the Set is usable only if none of them
// is an Error. The instant is used for warnings alone: what a Set says does not
// depend on when it was read.
func Parse(docs []Document, daemonSets []DaemonSet, now time.Time) (Set, []Problem) {
	c := &collection{daemonSets: sortedDaemonSets(daemonSets), wholeFleet: true}
	c.read(docs)
	c.resolveFreezes()
	c.resolveCalendars()
	c.resolveDaemonSets()
	c.checkStrategies()
	c.warn(now)
	return c.set(), c.report.sorted()
}

func sortedDaemonSets(list []DaemonSet) []DaemonSet {
	return slices.SortedFunc(slices.Values(list), func(a, b DaemonSet) int { return compareNames(a.Name, b.Name) })
}

// read reads every document, whatever is wrong with the ones before, and sorts
// them by name.
func (c *collection) read(docs []Document) {
	for _, d := range docs {
		if h, ok := readHeader(&c.report, d); ok {
			c.readKind(h, d)
		}
	}
	c.windows = unique(c.windows, func(e windowEntry) (string, subject) { return e.Name, e.subject })
	c.freezes = unique(c.freezes, func(e freezeEntry) (string, subject) { return e.Name, e.subject })
	c.upgrades = unique(c.upgrades, func(e upgradeEntry) (string, subject) { return e.Name, e.subject })
}

func (c *collection) readKind(h header, d Document) {
	switch h.kind {
	case KindMaintenanceWindow:
		c.windows = append(c.windows, readWindow(h, d))
	case KindFreeze:
		c.freezes = append(c.freezes, readFreeze(h, d))
	case KindUpgradePolicy:
		c.upgrades = append(c.upgrades, readUpgrade(h, d))
	}
}

// unique sorts entries by name and keeps one of each.
func unique[E any](entries []E, id func(E) (string, subject)) []E {
	slices.SortStableFunc(entries, func(a, b E) int {
		nameA, subjectA := id(a)
		nameB, subjectB := id(b)
		return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(subjectA.file, subjectB.file))
	})
	var out []E
	for _, e := range entries {
		name, s := id(e)
		if len(out) > 0 {
			if previous, first := id(out[len(out)-1]); previous == name {
				if name == "" {
					continue // each has been told that it needs a name
				}
				s.errorf("metadata.name", "is taken%s: rename one of them", in(first.file))
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

func in(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}

func (c *collection) set() Set {
	var s Set
	for _, w := range c.windows {
		s.Windows = append(s.Windows, w.MaintenanceWindow)
	}
	for _, f := range c.freezes {
		s.Freezes = append(s.Freezes, f.Freeze)
	}
	for _, u := range c.upgrades {
		s.Upgrades = append(s.Upgrades, u.UpgradePolicy)
	}
	return s
}
