// SPDX-License-Identifier: Apache-2.0

// Package window answers when nodes may be visited: whether a calendar of
// maintenance windows and freezes is open at an instant, until when, and when
// it opens next. It never looks at a clock and keeps no timers: the answer is a
// function of the calendar and the instant it is asked for, so a process that
// restarts inside a window finds it open.
//
// Cron fields are matched against wall-clock time, never inside a zone with
// daylight saving; each match is then mapped to one instant as RFC 5545,
// section 3.3.5, says. Whatever cannot be read is shut.
//
//	w, err := window.Recurring(window.RecurringSpec{
//		Name: "weeknights", TimeZone: "Europe/Berlin", Schedule: "0 22 * * 1-5", Duration: "6h",
//	})
//	state := window.Calendar{Allows: []window.Window{w}}.At(now).Any()
package window

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Window is the time of one maintenance window or freeze. Build it with
// Recurring, OneOff or Events: the zero Window is shut for ever. A Window is a small
// value that may be copied and used from many goroutines.
type Window struct {
	Name string
	// Selector limits the window to the nodes it matches; nil is every node.
	Selector labels.Selector

	when timing
}

// timing is when one window is open, without regard to nodes or freezes.
type timing interface {
	phase(t time.Time) phase
	// runs yields the merged runs that end after the given instant.
	runs(from time.Time) iter.Seq[occurrence]
	// zone is where its times are printed.
	zone() *time.Location
	length() time.Duration
	String() string
}

// Freeze is a span in which nothing is visited, whatever the windows say. It
// holds for every node: its Selector is not looked at. The zero Freeze, like
// any that was not built, is always in force.
type Freeze struct {
	Window
	Reason string
}

// Equal reports whether both windows have the same name, times and selector.
func (w Window) Equal(o Window) bool {
	return w.Name == o.Name && w.String() == o.String() && w.ICS() == o.ICS() && selectorString(w.Selector) == selectorString(o.Selector)
}

// Equal reports whether both freezes have the same name, times and reason.
func (f Freeze) Equal(o Freeze) bool {
	return f.Reason == o.Reason && f.Window.Equal(o.Window)
}

// String describes the times in one line: "0 22 * * 1-5 Europe/Berlin for 6h".
func (w Window) String() string {
	if w.when == nil {
		return "never"
	}
	return w.when.String()
}

// Length is how long one opening lasts, before windows that touch are merged;
// of the events of a calendar, the longest.
func (w Window) Length() time.Duration {
	if w.when == nil {
		return 0
	}
	return w.when.length()
}

// Location is the time zone the window is written in.
func (w Window) Location() *time.Location {
	if w.when == nil {
		return time.UTC
	}
	return w.when.zone()
}

// phase tells whether the window is open at t, and where it changes.
func (w Window) phase(t time.Time) phase {
	if w.when == nil {
		return phase{}
	}
	return w.when.phase(t)
}

// selects reports whether the window is for a node with these labels.
func (w Window) selects(node labels.Set) bool {
	return w.Selector == nil || w.Selector.Matches(node)
}

func selectorString(s labels.Selector) string {
	if s == nil {
		return ""
	}
	return s.String()
}
