// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"time"
)

// ClockChange is an instant at which the clocks of a zone are changed.
type ClockChange struct {
	// At is the first instant with the new offset, in the zone.
	At time.Time
	// Before and After are the offsets from UTC.
	Before, After time.Duration
}

// String is "clocks go forward 02:00 to 03:00", with dates if they differ.
func (c ClockChange) String() string {
	way := "forward"
	if c.After < c.Before {
		way = "back"
	}
	old, shown := c.At.UTC().Add(c.Before), c.At.UTC().Add(c.After)
	layout := "15:04"
	if old.Format(time.DateOnly) != shown.Format(time.DateOnly) {
		layout = "2006-01-02 15:04"
	}
	return fmt.Sprintf("clocks go %s %s to %s", way, old.Format(layout), shown.Format(layout))
}

// String is "02:30 does not exist, it opens at 03:30 CEST".
func (s Shift) String() string {
	if s.Twice {
		return fmt.Sprintf("%s comes twice, it opens at the first, %s", s.Written, s.Opens.Format("15:04 MST"))
	}
	return fmt.Sprintf("%s does not exist, it opens at %s", s.Written, s.Opens.Format("15:04 MST"))
}

// OnTheClock is how long the opening is by a clock in its zone. It differs from
// the elapsed time when the clocks are changed in it, and is zero when nothing
// closes it.
func (o Opening) OnTheClock() time.Duration {
	if o.End.IsZero() {
		return 0
	}
	return wallTime(o.End, o.End.Location()).Sub(wallTime(o.Start, o.Start.Location()))
}

// clockChanges are the changes of the clocks after start and up to end, in the
// zone that both are in. One at the end itself counts: the end is shown with
// the new offset.
func clockChanges(start, end time.Time) []ClockChange {
	var list []ClockChange
	loc := start.Location()
	for from := start; ; {
		at, changed := nextChange(from, end, loc)
		if !changed || at.After(end) {
			return list
		}
		list = append(list, ClockChange{At: at.In(loc), Before: offsetAt(at.Add(-1), loc), After: offsetAt(at, loc)})
		from = at
	}
}

// shiftAt is the shift of the opening at that instant, if it has one.
func (w Window) shiftAt(at time.Time) *Shift {
	for _, s := range w.Shifts(at, at.Add(1)) {
		return &s
	}
	return nil
}
