// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/window"
)

const onDelete = "OnDelete"

// checkStrategies refuses a policy for a DaemonSet that Kubernetes restarts by
// itself, and tells which DaemonSets are in no policy.
func (c *collection) checkStrategies() {
	owner := map[types.NamespacedName]string{}
	for _, u := range c.upgrades {
		for _, ds := range u.DaemonSets {
			owner[ds] = u.Name
		}
	}
	// With an error in a policy nobody knows yet what it governs.
	complete := !hasErrors(c.report.problems)
	for _, ds := range c.daemonSets {
		s := subject{report: &c.report, file: ds.File, line: ds.Line, object: "DaemonSet/" + ds.Name.Namespace + "/" + ds.Name.Name}
		policy, governed := owner[ds.Name]
		switch {
		case governed && ds.UpdateStrategy != onDelete:
			s.add(NotOnDelete, "spec.updateStrategy.type", "is %s, so Kubernetes restarts its pods outside the windows of UpgradePolicy %s: write %s",
				strategyName(ds.UpdateStrategy), policy, onDelete)
		case !governed && complete && ds.UpdateStrategy == onDelete:
			s.add(Ungoverned, "", "is in no UpgradePolicy: it is applied, but its pods are never restarted")
		case !governed && complete:
			s.add(Ungoverned, "", "is in no UpgradePolicy: Kubernetes restarts its pods as soon as it changes, outside every window")
		}
	}
}

func strategyName(s string) string {
	if s == "" {
		return "not set, which means RollingUpdate"
	}
	return s
}

// warn tells what is allowed and may surprise. Only windows that can be used
// are looked at; what is wrong with the others has been said.
func (c *collection) warn(now time.Time) {
	usable := map[string]bool{}
	for _, w := range c.windows {
		usable[w.Name] = w.valid
		if w.valid {
			warnSchedule(w.subject, w.Window, now)
		}
	}
	for _, f := range c.freezes {
		if f.valid {
			warnSchedule(f.subject, f.Freeze.Freeze.Window, now)
			warnCalendarEnd(f, now)
		}
	}
	for _, u := range c.upgrades {
		broken := func(name string) bool { return !usable[name] }
		known := len(u.WindowNames) == len(u.windows) && (len(u.windows) > 0 || u.Calendar.Always)
		if known && !slices.ContainsFunc(u.WindowNames, broken) && c.freezesValid() {
			warnCalendar(u, now)
		}
	}
}

func (c *collection) freezesValid() bool {
	return !slices.ContainsFunc(c.freezes, func(f freezeEntry) bool { return !f.valid })
}

func warnSchedule(s subject, w window.Window, now time.Time) {
	if w.EitherDay() {
		s.warnf("spec.schedule", "restricts both the day of the month and the weekday: cron fires on either, next on %s", strings.Join(nextDates(w, now, 5), ", "))
	}
	shifts := w.Shifts(now, now.AddDate(1, 0, 0))
	const most = 4
	var said []string
	for _, shift := range shifts[:min(len(shifts), most)] {
		said = append(said, shift.String())
	}
	if len(shifts) > most {
		said = append(said, fmt.Sprintf("and %d more", len(shifts)-most))
	}
	if len(said) > 0 {
		s.warnf("spec.schedule", "opens while the clocks of %s change: %s", w.Location(), strings.Join(said, "; "))
	}
}

// nextDates lists the next n dates, in its zone, on which a window opens.
func nextDates(w window.Window, now time.Time, n int) []string {
	var out []string
	for len(out) < n {
		next := w.Starts(now, 1)
		if len(next) == 0 {
			break
		}
		at := next[0]
		out = append(out, at.Format("Mon 2006-01-02"))
		now = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, at.Location())
		if !now.After(at) { // a midnight that does not exist
			now = at.Add(time.Minute)
		}
	}
	return out
}

// warnCalendar tells when a policy could not do its work.
func warnCalendar(u upgradeEntry, now time.Time) {
	if u.Calendar.NeverCloses(now) {
		u.subject.errorf("spec.windows", "take turns and never close: write [always] if that is meant")
		return
	}
	opens := false
	for i, w := range u.Calendar.Allows {
		path := u.windows[i].path
		alone := window.Calendar{Allows: []window.Window{w}}.At(now).Any()
		frozen := window.Calendar{Allows: []window.Window{w}, Freezes: u.Calendar.Freezes}.At(now).Any()
		switch {
		case !alone.Open && alone.NextOpen.IsZero():
			continue
		case !frozen.Open && frozen.Covered:
			u.subject.warnf(path, "%s may never open: %s", w.Name, frozen.NothingAhead())
		case !frozen.Open && frozen.NextOpen.IsZero():
			u.subject.warnf(path, "%s never opens: freezes cover every opening", w.Name)
		}
		opens = true
		if longest := longestOpening(w, alone); longest < u.VisitDuration {
			u.subject.warnf(path, "%s is open for %s, less than visitDuration %s: no visit starts in it", w.Name, window.FormatDuration(longest), window.FormatDuration(u.VisitDuration))
		}
	}
	if !opens && !u.Calendar.Always {
		u.subject.warnf("spec.windows", "never open again: nothing will be upgraded")
	}
}

// longestOpening is how long a window stays open, with the openings that touch
// merged.
func longestOpening(w window.Window, s window.State) time.Duration {
	if !s.Open {
		s = window.Calendar{Allows: []window.Window{w}}.At(s.NextOpen).Any()
	}
	return max(w.Length(), s.Close.Sub(s.Opened))
}
