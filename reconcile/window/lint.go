// SPDX-License-Identifier: Apache-2.0

package window

import "time"

// starBit is set in a cron field that was written with a star.
const starBit = 1 << 63

// EitherDay reports whether the schedule restricts both the day of the month
// and the day of the week. Cron then fires on days that match either.
func (w Window) EitherDay() bool {
	r, ok := w.when.(*recurring)
	return ok && !r.ticks.both
}

// Starts lists the next n instants, at or after from, at which the window
// opens, in its zone.
func (w Window) Starts(from time.Time, n int) []time.Time {
	var list []time.Time
	switch when := w.when.(type) {
	case oneOff:
		if n > 0 && !when.start.Before(from) {
			list = append(list, when.start)
		}
	case *recurring:
		for at := range when.starts(from) {
			if len(list) == n {
				break
			}
			if !at.Before(from) && (len(list) == 0 || !at.Equal(list[len(list)-1])) {
				list = append(list, at.In(when.loc))
			}
		}
	}
	return list
}

// Shift is an opening that a change of the clocks moves.
type Shift struct {
	// Written is the wall-clock time in the schedule: "2026-03-29 02:30".
	Written string
	// Twice: the clock shows that time twice. Otherwise it skips it.
	Twice bool
	// Opens is when the window opens then, in its zone.
	Opens time.Time
}

// Shifts lists the openings in [from, to) whose wall-clock time does not exist
// or comes twice. A schedule for every hour has none: it names no time.
func (w Window) Shifts(from, to time.Time) []Shift {
	r, ok := w.when.(*recurring)
	if !ok || r.ticks.everyHour {
		return nil
	}
	var list []Shift
	c := clock{loc: r.loc}
	last := wallTime(to, r.loc).Add(slack)
	for t := range r.ticks.after(wallTime(from, r.loc).Add(-slack)) {
		if !t.Before(last) {
			break
		}
		p := c.instant(t)
		if p.kind == unique || p.at.Before(from) || !p.at.Before(to) {
			continue
		}
		list = append(list, Shift{Written: t.Format("2006-01-02 15:04"), Twice: p.kind == twice, Opens: p.at.In(r.loc)})
	}
	return list
}
