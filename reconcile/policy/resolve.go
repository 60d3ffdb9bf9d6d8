// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/window"
)

// named is what a reference can mean: an object by its final name, or by the
// one that it had in its file.
type named struct {
	final, original string
}

// catalogue is what references of one kind are looked up in.
type catalogue struct {
	kind string
	// where is said of a name that is missing: "", or " in namespace x".
	where string
	names []named
}

// find is the index of the object a reference means: the one with that final
// name, else the only one that had it in its file. The message says why there
// is none.
func (c catalogue) find(ref string) (int, string) {
	var renamed []int
	for i, n := range c.names {
		if n.final == ref {
			return i, ""
		}
		if n.original == ref {
			renamed = append(renamed, i)
		}
	}
	switch len(renamed) {
	case 1:
		return renamed[0], ""
	case 0:
		return -1, c.missing(ref)
	}
	var finals []string
	for _, i := range renamed {
		finals = append(finals, c.names[i].final)
	}
	slices.Sort(finals)
	return -1, fmt.Sprintf("%q was the name of %d objects of kind %s before they were renamed: write %s", ref, len(finals), c.kind, oneOfWords(finals))
}

func (c catalogue) missing(ref string) string {
	message := fmt.Sprintf("there is no %s %q%s", c.kind, shorten(ref), c.where)
	if len(c.names) == 0 {
		return message + ", nor any other"
	}
	var names []string
	for _, n := range c.names {
		names = append(names, n.final)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const most = 5
	otherwise := "there is " + strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		otherwise += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return message + didYouMean(ref, names, otherwise)
}

// resolveFreezes replaces the names of policies by final ones.
func (c *collection) resolveFreezes() {
	policies := catalogue{kind: KindUpgradePolicy}
	for _, u := range c.upgrades {
		policies.names = append(policies.names, named{u.Name, u.Source.OriginalName})
	}
	for i := range c.freezes {
		f := &c.freezes[i]
		for _, ref := range f.policies {
			at, message := policies.find(ref.name)
			if at < 0 {
				if c.wholeFleet {
					f.subject.errorf(ref.path, "%s", message)
				}
				f.Policies = append(f.Policies, ref.name)
				continue
			}
			f.Policies = append(f.Policies, policies.names[at].final)
		}
	}
}

// resolveCalendars gives each policy its windows, and the freezes that are for it.
func (c *collection) resolveCalendars() {
	windows := catalogue{kind: KindMaintenanceWindow}
	for _, w := range c.windows {
		windows.names = append(windows.names, named{w.Name, w.Source.OriginalName})
	}
	for i := range c.upgrades {
		u := &c.upgrades[i]
		for _, ref := range u.windows {
			at, message := windows.find(ref.name)
			if at < 0 {
				u.subject.errorf(ref.path, "%s", message)
				continue
			}
			u.WindowNames = append(u.WindowNames, windows.names[at].final)
			u.Calendar.Allows = append(u.Calendar.Allows, c.windows[at].Window)
		}
		u.Calendar.Freezes = c.freezesFor(u.Name)
	}
}

func (c *collection) freezesFor(policy string) []window.Freeze {
	var out []window.Freeze
	for _, f := range c.freezes {
		if f.appliesTo(policy) {
			out = append(out, f.Freeze.Freeze)
		}
	}
	return out
}

func (f Freeze) appliesTo(policy string) bool {
	return len(f.Policies) == 0 || slices.Contains(f.Policies, policy)
}

// resolveDaemonSets replaces references and selectors by the DaemonSets they
// mean, in the order of a visit.
func (c *collection) resolveDaemonSets() {
	owner := map[types.NamespacedName]string{}
	for i := range c.upgrades {
		u := &c.upgrades[i]
		before := len(c.report.problems)
		for _, ref := range u.daemonSets {
			for _, ds := range c.daemonSetsOf(u, ref) {
				u.take(ds, ref, owner)
			}
		}
		if len(u.daemonSets) > 0 && len(u.DaemonSets) == 0 && !hasErrors(c.report.problems[before:]) {
			u.subject.errorf("spec.daemonSets", "selects no DaemonSet of this fleet: nothing would be upgraded")
		}
	}
}

// take adds a DaemonSet that belongs to no other policy.
func (u *upgradeEntry) take(ds types.NamespacedName, ref daemonSetReference, owner map[types.NamespacedName]string) {
	other, taken := owner[ds]
	switch {
	case taken && other != u.Name:
		u.subject.errorf(ref.path, "DaemonSet %s is in UpgradePolicy %s already: leave it in one of them", ds, other)
		return
	case taken && ref.selector == nil:
		u.subject.errorf(ref.path, "DaemonSet %s is listed twice", ds)
		return
	case taken:
		return
	}
	owner[ds] = u.Name
	u.DaemonSets = append(u.DaemonSets, ds)
}

func (c *collection) daemonSetsOf(u *upgradeEntry, ref daemonSetReference) []types.NamespacedName {
	var inNamespace []DaemonSet
	for _, ds := range c.daemonSets {
		if ds.Name.Namespace == ref.namespace {
			inNamespace = append(inNamespace, ds)
		}
	}
	if ref.selector != nil {
		return selected(u, ref, inNamespace)
	}
	all := catalogue{kind: "DaemonSet", where: " in namespace " + ref.namespace}
	for _, ds := range inNamespace {
		all.names = append(all.names, named{ds.Name.Name, ds.OriginalName})
	}
	i, message := all.find(ref.name)
	if i < 0 {
		u.subject.errorf(ref.path, "%s", c.elsewhere(ref, message))
		return nil
	}
	return []types.NamespacedName{inNamespace[i].Name}
}

// elsewhere is a better message if another namespace has a DaemonSet of that name.
func (c *collection) elsewhere(ref daemonSetReference, message string) string {
	for _, ds := range c.daemonSets {
		if ds.Name.Namespace != ref.namespace && (ds.Name.Name == ref.name || ds.OriginalName == ref.name) {
			return fmt.Sprintf("there is no DaemonSet %q in namespace %s: did you mean namespace %s?", ref.name, ref.namespace, ds.Name.Namespace)
		}
	}
	return message
}

func selected(u *upgradeEntry, ref daemonSetReference, among []DaemonSet) []types.NamespacedName {
	var out []types.NamespacedName
	for _, ds := range among {
		if ref.selector.Matches(labels.Set(ds.Labels)) {
			out = append(out, ds.Name)
		}
	}
	if len(out) == 0 {
		u.subject.warnf(ref.path, "selects no DaemonSet in namespace %s", ref.namespace)
	}
	slices.SortFunc(out, compareNames)
	return out
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
