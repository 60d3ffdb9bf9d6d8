// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	day = 24 * time.Hour
	// judgedYears is how much of a schedule is looked at when it is read: from
	// the anchor on, it holds two leap days and so the widest gap that recurs.
	judgedYears = 5
	// maxTicks bounds the work of one answer: the openings in the longest
	// merged run and around it.
	maxTicks = 500
)

// pattern is how the ticks of a schedule lie on the wall clock.
type pattern struct {
	perDay      int           // ticks on a day that has any
	first, last time.Duration // of such a day
	gapInDay    time.Duration // widest between two ticks of a day
	days        []time.Time
}

// fits refuses a duration that makes the schedule a window that never closes,
// or one that is too costly to follow.
func fits(s *cron.SpecSchedule, d time.Duration) FieldError {
	p := patternOf(s)
	if d >= p.widestGap() {
		return FieldError{"duration", fmt.Sprintf("%s reaches the next opening every time, so it never closes: shorten it; any time is windows: [always]", FormatDuration(d))}
	}
	if n := p.ticksToFollow(d); n > maxTicks {
		return FieldError{"schedule", fmt.Sprintf("opens %d times a day, too often to follow for %s: write fewer and longer openings", p.perDay, FormatDuration(d))}
	}
	return FieldError{}
}

func patternOf(s *cron.SpecSchedule) pattern {
	p := pattern{first: -1}
	for h := range 24 {
		for m := range 60 {
			if s.Hour&(1<<h) == 0 || s.Minute&(1<<m) == 0 {
				continue
			}
			at := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
			if p.first < 0 {
				p.first = at
			} else {
				p.gapInDay = max(p.gapInDay, at-p.last)
			}
			p.last = at
		}
	}
	p.perDay = bits.OnesCount64(s.Hour&(1<<24-1)) * bits.OnesCount64(s.Minute&(1<<60-1))
	p.days = matchingDays(s)
	return p
}

// matchingDays walks the judged years itself: asking the schedule for each day
// would take milliseconds.
func matchingDays(s *cron.SpecSchedule) []time.Time {
	var found []time.Time
	end := anchor.AddDate(judgedYears, 0, 0)
	for d := anchor; d.Before(end); d = d.Add(day) {
		_, month, date := d.Date()
		onDate, onWeekday := s.Dom&(1<<date) != 0, s.Dow&(1<<d.Weekday()) != 0
		matches := onDate || onWeekday
		if (s.Dom|s.Dow)&starBit != 0 {
			matches = onDate && onWeekday
		}
		if matches && s.Month&(1<<month) != 0 {
			found = append(found, d)
		}
	}
	return found
}

// overnight is the time from the last tick of one day to the first of the next.
func (p pattern) overnight(i int) time.Duration {
	return p.days[i+1].Sub(p.days[i]) - (p.last - p.first)
}

func (p pattern) widestGap() time.Duration {
	widest := p.gapInDay
	for i := range len(p.days) - 1 {
		widest = max(widest, p.overnight(i))
	}
	return widest
}

// ticksToFollow is how many ticks one answer may have to look at.
func (p pattern) ticksToFollow(d time.Duration) int {
	around := (int(2*d/day) + 3) * p.perDay
	if p.gapInDay > d {
		return around // a run breaks within the day
	}
	chain, longest := 1, 1
	for i := range len(p.days) - 1 {
		if p.overnight(i) > d {
			chain = 0
		}
		chain++
		longest = max(longest, chain)
	}
	return around + longest*p.perDay
}
