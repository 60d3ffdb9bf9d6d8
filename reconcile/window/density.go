// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"time"
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
func fits(k ticks, d time.Duration) FieldError {
	p := patternOf(k)
	if d >= p.widestGap() {
		return FieldError{"duration", fmt.Sprintf("%s reaches the next opening every time, so it never closes: shorten it; any time is windows: [always]", FormatDuration(d))}
	}
	if n := p.ticksToFollow(d); n > maxTicks {
		return FieldError{"schedule", fmt.Sprintf("opens %d times a day, too often to follow for %s: write fewer and longer openings", p.perDay, FormatDuration(d))}
	}
	return FieldError{}
}

func patternOf(k ticks) pattern {
	p := pattern{perDay: len(k.times), first: k.times[0], last: k.times[0]}
	for _, at := range k.times[1:] {
		p.gapInDay = max(p.gapInDay, at-p.last)
		p.last = at
	}
	end := anchor.AddDate(judgedYears, 0, 0)
	for d := range k.days(anchor) {
		if !d.Before(end) {
			break
		}
		p.days = append(p.days, d)
	}
	return p
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
