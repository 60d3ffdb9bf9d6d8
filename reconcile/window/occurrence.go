// SPDX-License-Identifier: Apache-2.0

package window

import (
	"cmp"
	"slices"
	"time"
)

// event is something that happens at one or more times on the wall clock of a zone.
type event struct {
	summary string
	loc     *time.Location
	allDay  bool
	length  length
	// starts are wall-clock times, sorted.
	starts []time.Time
	// rule repeats it for ever, after first and except then; nil does not.
	rule   *yearly
	first  time.Time
	except []time.Time
}

// length is days on the calendar, of whatever length, and elapsed time after them.
type length struct {
	days    int
	elapsed time.Duration
}

// atMost bounds a length in elapsed time.
func (l length) atMost() time.Duration {
	return time.Duration(l.days)*day + l.elapsed + slack
}

// occurrence is one time at which an event happens.
type occurrence struct {
	start, end time.Time
	summary    string
}

// at is the occurrence that starts when the wall clock shows w. Whole days end
// when a day begins, however long they are.
func (ev event) at(c *clock, w time.Time) occurrence {
	s := occurrence{start: c.instant(w).at, summary: ev.summary}
	s.end = s.start
	if ev.length.days > 0 {
		s.end = c.instant(w.AddDate(0, 0, ev.length.days)).at
	}
	s.end = s.end.Add(ev.length.elapsed)
	return s
}

func byStart(a, b occurrence) int {
	return cmp.Or(a.start.Compare(b.start), a.end.Compare(b.end), cmp.Compare(a.summary, b.summary))
}

// merged unites sorted spans that overlap or touch.
func merged(spans []occurrence) []occurrence {
	var runs []occurrence
	for _, s := range spans {
		if last := len(runs) - 1; last >= 0 && !s.start.After(runs[last].end) {
			if s.end.After(runs[last].end) {
				runs[last].end = s.end
			}
			continue
		}
		runs = append(runs, s)
	}
	return runs
}

// upcoming is an event at one wall-clock time.
type upcoming struct {
	at time.Time
	ev *event
}

// happen maps events to instants, and sorts them. What begins and ends in a gap
// of the clock does not happen.
func happen(list []upcoming) []occurrence {
	// In order of the wall clock, most are in the period that the clock remembers.
	slices.SortFunc(list, func(a, b upcoming) int { return a.at.Compare(b.at) })
	out := make([]occurrence, 0, len(list))
	clocks := map[*time.Location]*clock{}
	for _, u := range list {
		c := clocks[u.ev.loc]
		if c == nil {
			c = &clock{loc: u.ev.loc}
			clocks[u.ev.loc] = c
		}
		if o := u.ev.at(c, u.at); o.start.Before(o.end) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, byStart)
	return out
}
