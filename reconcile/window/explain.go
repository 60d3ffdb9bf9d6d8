// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explain says in one line why the calendar is open or shut, in the time zone
// of the window it is about:
//
//	weeknights opened 22:00 CET, closes 04:00; freeze year-end begins 00:00: effective close 00:00
func (s State) Explain() string {
	switch {
	case s.Doubt != "":
		return "shut: " + s.Doubt
	case !s.kept.IsZero():
		return s.explainKept()
	case s.Frozen:
		return s.explainFrozen()
	case s.Open:
		return s.explainOpen()
	case s.windows == 0:
		return "shut: no window covers it"
	case s.next == nil:
		return "shut: " + s.NothingAhead()
	}
	p := printer{now: s.now, loc: s.next.Location()}
	return fmt.Sprintf("shut: %s opens %s", s.next.Name, p.time(s.NextOpen))
}

func (s State) explainOpen() string {
	p := printer{now: s.now, loc: s.location()}
	var b strings.Builder
	if s.always {
		b.WriteString("always open")
	} else {
		fmt.Fprintf(&b, "%s opened %s, ", s.allow.first.Name, p.time(s.allow.start))
		if s.allow.last != s.allow.first {
			b.WriteString(s.allow.last.Name + " ")
		}
		fmt.Fprintf(&b, "closes %s", p.time(s.allow.end))
	}
	if f := s.freeze; !f.next.IsZero() && f.next.Equal(s.Close) {
		fmt.Fprintf(&b, "; freeze %s begins %s: effective close %s", named(f.opener.Name, f.opener.Event(f.next)), p.time(f.next), p.time(s.Close))
	}
	return b.String()
}

func (s State) explainFrozen() string {
	p := printer{now: s.now, loc: s.location()}
	var b strings.Builder
	b.WriteString("frozen by " + s.FrozenBy())
	switch {
	case s.freeze.end.IsZero():
		b.WriteString(" for ever")
	default:
		fmt.Fprintf(&b, " until %s", p.time(s.freeze.end))
	}
	switch {
	case s.next != nil:
		fmt.Fprintf(&b, "; %s opens %s", s.next.Name, p.time(s.NextOpen))
	case s.NextOpen.IsZero():
		b.WriteString("; " + s.NothingAhead())
	}
	return b.String()
}

// NothingAhead says why NextOpen is zero.
func (s State) NothingAhead() string {
	if s.Covered {
		return "freezes cover the next openings, as far as they are looked for"
	}
	return "no window opens again"
}

// FrozenBy is the freeze in force with its event and its reason, as far as it
// has them: "holidays (Christmas Day; CHG-1)". Empty when there is none.
func (s State) FrozenBy() string {
	if !s.Frozen {
		return ""
	}
	return named(s.freeze.first.Name, s.freeze.first.Event(s.now), s.reasonOf(s.freeze.first))
}

// named is a freeze with what is known of it: "holidays (Christmas Day; CHG-1)".
func named(name string, about ...string) string {
	about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
	if len(about) == 0 {
		return name
	}
	return name + " (" + strings.Join(about, "; ") + ")"
}

// location is the zone of the window or freeze that decides.
func (s State) location() *time.Location {
	switch {
	case s.Frozen:
		return s.freeze.first.Location()
	case s.allow.first != nil:
		return s.allow.first.Location()
	case s.freeze.opener != nil:
		return s.freeze.opener.Location()
	}
	return time.UTC
}

// printer writes the times of one line. A time within a day of now needs no
// date, and the zone is said once until it changes.
type printer struct {
	now  time.Time
	loc  *time.Location
	zone string
}

func (p *printer) time(t time.Time) string {
	t = t.In(p.loc)
	layout := "2006-01-02 15:04"
	if d := t.Sub(p.now).Abs(); d < day {
		layout = "15:04"
	}
	if t.Second() != 0 || t.Nanosecond() != 0 {
		layout += ":05"
	}
	s := t.Format(layout)
	if zone := t.Format("MST"); zone != p.zone {
		p.zone = zone
		s += " " + zone
	}
	return s
}
