// SPDX-License-Identifier: Apache-2.0

package window

import (
	"iter"
	"time"
)

// Wall-clock times are time.Time values in UTC that stand for what a clock in
// the zone shows. Only this file turns them into instants.

const (
	// furthest is more than any zone has ever been away from UTC.
	furthest = 16 * time.Hour
	// slack covers the largest jump of a wall clock, a day at the date line.
	slack = 26 * time.Hour
)

// wallTime is what the clock in loc shows at t.
func wallTime(t time.Time, loc *time.Location) time.Time {
	return t.UTC().Add(offsetAt(t, loc))
}

// clock maps wall-clock times of a zone to instants. It remembers the last
// offset, because most ticks of a walk share it.
type clock struct {
	loc        *time.Location
	offset     time.Duration
	start, end time.Time // where the offset is in force and no time comes twice
}

// place is where a wall-clock time falls.
type place struct {
	at time.Time
	// floor is a bound: no later wall-clock time falls before it.
	floor time.Time
	kind  placeKind
}

type placeKind string

const (
	unique placeKind = "unique"
	twice  placeKind = "twice"
	gap    placeKind = "gap"
)

// instant maps the wall-clock time w by RFC 5545, section 3.3.5: a time that
// comes twice is the first, one that does not exist is read with the offset in
// force before the gap.
func (c *clock) instant(w time.Time) place {
	if at := w.Add(-c.offset); !c.start.IsZero() && !at.Before(c.start) && at.Before(c.end) {
		return place{at: at, floor: at, kind: unique}
	}
	return c.search(w)
}

// search walks the offsets in force around w in order of time, so that the
// first one in which w exists is found first.
func (c *clock) search(w time.Time) place {
	from, last := w.Add(-furthest), w.Add(furthest)
	offset := offsetAt(from, c.loc)
	for {
		at := w.Add(-offset)
		change, changed := nextChange(from, last, c.loc)
		if !changed {
			c.remember(at, offset)
			return place{at: at, floor: at, kind: unique}
		}
		next := offsetAt(change, c.loc)
		again := w.Add(-next)
		switch {
		case at.Before(change) && !again.Before(change) && offsetAt(again, c.loc) == next:
			return place{at: at, floor: at, kind: twice}
		case at.Before(change):
			return place{at: at, floor: at, kind: unique}
		case again.Before(change):
			return place{at: at, floor: change, kind: gap}
		}
		from, offset = change, next
	}
}

// remember keeps an offset for the times well inside its period: near its
// bounds a wall-clock time may be shown twice, or never.
//
// The bounds that package time gives are only a hint. In a year that it
// computes by rule they may be those of the year, and at the end of a leap year
// they may lie before the time that was asked for.
func (c *clock) remember(at time.Time, offset time.Duration) {
	start, end := at.In(c.loc).ZoneBounds()
	if start.IsZero() {
		start = at
	}
	if end.IsZero() {
		end = at.AddDate(1, 0, 0)
	}
	c.offset, c.start, c.end = offset, start.Add(slack), end.Add(-slack)
}

// nextChange is the first instant after from, and not after last, with another
// offset than at from. Zones change on whole seconds, none twice within the hour.
func nextChange(from, last time.Time, loc *time.Location) (time.Time, bool) {
	from = from.Truncate(time.Second)
	before := offsetAt(from, loc)
	for from.Before(last) {
		to := from.Add(time.Hour)
		if offsetAt(to, loc) == before {
			from = to
			continue
		}
		for to.Sub(from) > time.Second {
			middle := from.Add(to.Sub(from) / 2).Truncate(time.Second)
			if offsetAt(middle, loc) == before {
				from = middle
			} else {
				to = middle
			}
		}
		return to, true
	}
	return time.Time{}, false
}

func offsetAt(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}

// wallBefore is a wall-clock time before every one that maps to from or later.
// That is the one shown just before, unless the clock was changed within a day.
func wallBefore(from time.Time, loc *time.Location) time.Time {
	back := time.Second
	if _, changed := nextChange(from.Add(-slack), from, loc); changed {
		back = slack
	}
	return wallTime(from, loc).Add(-back)
}

// starts yields the instants at which the window opens, in order: every one
// from the given instant on, and some before it. It ends when the schedule has
// no tick in five years.
//
// Ticks in a gap fall behind ticks that are later on the wall clock. They are
// held back until a bound shows that nothing earlier can follow.
func (r *recurring) starts(from time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		c := clock{loc: r.loc}
		var held []time.Time
		for w := range r.ticks.after(wallBefore(from, r.loc)) {
			p := c.instant(w)
			for len(held) > 0 && held[0].Before(p.floor) {
				if !yield(held[0]) {
					return
				}
				held = held[1:]
			}
			if p.at.After(p.floor) {
				held = append(held, p.at)
			} else if !yield(p.at) {
				return
			}
		}
		for _, at := range held {
			if !yield(at) {
				return
			}
		}
	}
}
