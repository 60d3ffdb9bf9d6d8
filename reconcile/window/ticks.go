// SPDX-License-Identifier: Apache-2.0

package window

import (
	"iter"
	"time"

	"github.com/robfig/cron/v3"
)

// ticks are the wall-clock times that a schedule matches. They are the same as
// those of the library's Next, which takes many times as long:
// it looks for each one hour by hour.
type ticks struct {
	times           []time.Duration // of a day that matches, sorted
	dom, month, dow uint64
	both            bool // a day has to match in both day fields, not in either
	everyHour       bool // the hours are written as a star
}

// lookedAhead is how many years may pass without a tick.
const lookedAhead = 5

func ticksOf(s *cron.SpecSchedule) ticks {
	k := ticks{dom: s.Dom, month: s.Month, dow: s.Dow, both: (s.Dom|s.Dow)&starBit != 0, everyHour: s.Hour&starBit != 0}
	for h := range 24 {
		for m := range 60 {
			if s.Hour&(1<<h) != 0 && s.Minute&(1<<m) != 0 {
				k.times = append(k.times, time.Duration(h)*time.Hour+time.Duration(m)*time.Minute)
			}
		}
	}
	return k
}

// on reports whether a day of a matching month has ticks.
func (k *ticks) on(date int, weekday time.Weekday) bool {
	onDate, onWeekday := k.dom&(1<<date) != 0, k.dow&(1<<weekday) != 0
	if k.both {
		return onDate && onWeekday
	}
	return onDate || onWeekday
}

// days yields the midnights of the days that have ticks, from the one that
// holds w on, until none comes in five years.
func (k *ticks) days(w time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		midnight := w.Truncate(day)
		last := midnight.Year() + lookedAhead
		for {
			year, month, date := midnight.Date()
			next := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			if year > last {
				return
			}
			if k.month&(1<<month) == 0 {
				midnight = next
				continue
			}
			for ; midnight.Before(next); midnight, date = midnight.Add(day), date+1 {
				if !k.on(date, midnight.Weekday()) {
					continue
				}
				last = year + lookedAhead
				if !yield(midnight) {
					return
				}
			}
		}
	}
}

// after yields the ticks later than w, in order.
func (k *ticks) after(w time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for midnight := range k.days(w) {
			for _, at := range k.times {
				if t := midnight.Add(at); t.After(w) && !yield(t) {
					return
				}
			}
		}
	}
}
