// SPDX-License-Identifier: Apache-2.0

package window

import "time"

// Opening is one span in which a calendar is open. Its times are in the zone
// of the window that opens it.
type Opening struct {
	Start time.Time
	// End is zero when nothing closes the calendar.
	End time.Time
	// By is the window that opens it; empty when always open.
	By string
	// Windows are those that are open in it, as the calendar lists them; none
	// when always open.
	Windows []string
	// FrozenBefore is the freeze that ends as it starts, FrozenAfter the one
	// that begins as it ends, each while a window was open; empty when the
	// windows themselves open and close it.
	FrozenBefore, FrozenAfter string
	// Shift is why it opens at another time than its schedule says; nil when it
	// opens as written.
	Shift *Shift
	// Changes are the changes of the clocks in it, in the zone of By. It is
	// empty for an opening without an end.
	Changes []ClockChange
}

// Openings lists the spans that intersect [from, to), in order, with the
// freezes cut out. One that began before from has its real start, and one that
// goes on past to its real end. What was open all the year before from starts
// at from.
func (c Calendar) Openings(from, to time.Time) []Opening {
	var list []Opening
	for t := from; t.Before(to); {
		s := c.state(t)
		start, by := t, s.allow.first
		switch {
		case s.Open && len(list) == 0:
			start = c.began(s)
		case !s.Open:
			start, by = s.NextOpen, s.next
			if start.IsZero() || !start.Before(to) {
				return list
			}
			s = c.state(start)
		}
		loc := s.location()
		o := Opening{Start: start.In(loc), End: inZone(s.Close, loc), By: nameOf(by)}
		list = append(list, c.describe(o, by))
		if s.Close.IsZero() {
			return list
		}
		t = s.Close
	}
	return list
}

// began is when the opening that holds the state's instant started: with its
// windows, or when the last freeze ended.
func (c Calendar) began(s State) time.Time {
	t := s.Opened
	if s.always {
		t = s.now.AddDate(-1, 0, 0)
	}
	for t.Before(s.now) {
		earlier := c.state(t)
		switch {
		case !earlier.Open:
			t = earlier.NextOpen
		case !earlier.Close.IsZero() && !earlier.Close.After(s.now):
			t = earlier.Close
		case s.always && t.Equal(s.now.AddDate(-1, 0, 0)):
			return s.now
		default:
			return t
		}
		if t.IsZero() {
			break
		}
	}
	return s.now
}

// describe adds what is worth knowing of an opening that by opens.
func (c Calendar) describe(o Opening, by *Window) Opening {
	for i := range c.Allows {
		w := &c.Allows[i]
		p := w.phase(o.Start)
		if p.open || !p.next.IsZero() && (o.End.IsZero() || p.next.Before(o.End)) {
			o.Windows = append(o.Windows, w.Name)
		}
	}
	if before := o.Start.Add(-1); c.allowed(before).open {
		o.FrozenBefore = nameOf(c.frozen(before).first)
	}
	if o.End.IsZero() {
		return o
	}
	if c.allowed(o.End).open {
		o.FrozenAfter = nameOf(c.frozen(o.End).first)
	}
	if by != nil {
		o.Shift = by.shiftAt(o.Start)
	}
	o.Changes = clockChanges(o.Start, o.End)
	return o
}

// Covered lists the openings that intersect [from, to) and do not happen,
// because freezes cover them from their start to their end. FrozenBefore is the
// freeze in force at their start.
func (c Calendar) Covered(from, to time.Time) []Opening {
	var list []Opening
	for _, o := range (Calendar{Always: c.Always, Allows: c.Allows}).Openings(from, to) {
		s := c.state(o.Start)
		if !s.Frozen || o.End.IsZero() || (!s.NextOpen.IsZero() && s.NextOpen.Before(o.End)) {
			continue
		}
		o.FrozenBefore = s.By
		list = append(list, o)
	}
	return list
}

// Span is [Start, End).
type Span struct{ Start, End time.Time }

// Spans lists when the window is open in [from, to), in its zone, each with its
// real start and end.
func (w Window) Spans(from, to time.Time) []Span {
	var list []Span
	for t := from; t.Before(to); {
		p := w.phase(t)
		if p.open {
			list = append(list, Span{p.from.In(w.Location()), p.end.In(w.Location())})
		}
		t = p.until()
		if t.IsZero() {
			break
		}
	}
	return list
}

func inZone(t time.Time, loc *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(loc)
}
