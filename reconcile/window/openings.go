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
}

// Openings lists the spans that intersect [from, to), in order, with the
// freezes cut out. One that began before from starts there; one that goes on
// past to keeps its real end.
func (c Calendar) Openings(from, to time.Time) []Opening {
	var list []Opening
	for t := from; t.Before(to); {
		s := c.state(t)
		start, by := t, s.allow.first
		if !s.Open {
			start, by = s.NextOpen, s.next
			if start.IsZero() || !start.Before(to) {
				break
			}
			s = c.state(start)
		}
		loc := s.location()
		list = append(list, Opening{Start: start.In(loc), End: inZone(s.Close, loc), By: nameOf(by)})
		if s.Close.IsZero() {
			break
		}
		t = s.Close
	}
	return list
}

func inZone(t time.Time, loc *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(loc)
}
