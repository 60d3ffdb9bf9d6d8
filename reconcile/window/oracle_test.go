// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle answers the same questions as the package by reading the clock of
// a zone minute by minute. It shares no code with it: its own cron matcher, its
// own idea of what a clock shows, and an array with a place for every minute.

// margin is how many minutes around a timeline are looked at: an opening that
// touches it may begin that much earlier, on a clock that is a day off.
const margin = (9 + 2) * 24 * 60

// timeline is a span of minutes, each with what is open in it.
type timeline struct {
	start   time.Time
	clock   []shownTime // of every minute, from margin before start to margin after the end
	allowed []bool
	frozen  []bool
}

// shownTime is what a clock shows, as minutes of a calendar without zones, and
// its offset in minutes.
type shownTime struct{ wall, offset int64 }

func newTimeline(zone string, start time.Time, minutes int) *timeline {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	l := &timeline{start: start.Truncate(time.Minute).UTC(), allowed: make([]bool, minutes), frozen: make([]bool, minutes)}
	for i := -margin; i < minutes+margin; i++ {
		at := l.instant(i)
		_, seconds := at.In(loc).Zone()
		wall := at.Unix()/60 + int64(seconds/60)
		l.clock = append(l.clock, shownTime{wall: wall, offset: int64(seconds / 60)})
	}
	return l
}

func (l *timeline) index(t time.Time) int {
	n := t.Sub(l.start)
	if n < 0 {
		return -1
	}
	return int(n / time.Minute)
}

func (l *timeline) instant(i int) time.Time {
	return l.start.Add(time.Duration(i) * time.Minute)
}

// mark opens the minutes from at on.
func mark(minutes []bool, at, length int) {
	for i := max(at, 0); i < min(at+length, len(minutes)); i++ {
		minutes[i] = true
	}
}

// recur marks every opening of a schedule that touches the timeline.
func (l *timeline) recur(minutes []bool, schedule string, duration time.Duration) {
	length := int(duration / time.Minute)
	if length > margin-2*24*60 {
		panic("longer than the margin")
	}
	rule := parseRule(schedule)
	latest := l.clock[0].wall // shown so far
	for i, shown := range l.clock {
		previous := l.clock[max(i-1, 0)]
		for skipped := previous.wall + 1; skipped < shown.wall; skipped++ {
			if rule.matches(skipped) {
				mark(minutes, int(skipped-previous.offset-l.start.Unix()/60), length)
			}
		}
		if shown.wall > latest && rule.matches(shown.wall) {
			mark(minutes, i-margin, length)
		}
		latest = max(latest, shown.wall)
	}
}

// rule is a cron expression as a set of values for each field.
type rule struct {
	fields  [5][60]bool
	dayStar bool // one of the two day fields is not restricted
}

func parseRule(s string) rule {
	var r rule
	for i, text := range strings.Fields(s) {
		values, star := parseField(text, [5]int{0, 0, 1, 1, 0}[i], [5]int{59, 23, 31, 12, 6}[i])
		r.fields[i] = values
		r.dayStar = r.dayStar || star && (i == 2 || i == 4)
	}
	return r
}

func parseField(text string, low, high int) (values [60]bool, star bool) {
	for item := range strings.SplitSeq(text, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			step = number(stepText)
		}
		from, to := low, high
		if body == "*" {
			star = star || step == 1
		} else {
			a, b, ranged := strings.Cut(body, "-")
			from = number(a)
			switch {
			case ranged:
				to = number(b)
			case !stepped:
				to = from
			}
		}
		for v := from; v <= to; v += step {
			values[v] = true
		}
	}
	return values, star
}

func number(s string) int {
	if i := strings.Index("sunmontuewedthufrisat", strings.ToLower(s)); len(s) == 3 && i >= 0 && i%3 == 0 {
		return i / 3
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", s, err))
	}
	return n
}

func (r rule) matches(wall int64) bool {
	minute, hour := int(wall%60), int(wall/60%24)
	if !r.fields[0][minute] || !r.fields[1][hour] {
		return false
	}
	t := time.Unix(wall*60, 0).UTC()
	if !r.fields[3][int(t.Month())] {
		return false
	}
	date, weekday := r.fields[2][t.Day()], r.fields[4][int(t.Weekday())]
	if r.dayStar {
		return date && weekday
	}
	return date || weekday
}

// answerAt is what the timeline says at t; a time that lies outside it is zero.
func (l *timeline) answerAt(t time.Time) State {
	i := l.index(t)
	open := func(i int) bool { return l.allowed[i] && !l.frozen[i] }
	s := State{Open: open(i), Frozen: l.frozen[i]}
	next := i + 1
	if s.Open {
		for next < len(l.allowed) && open(next) {
			next++
		}
		s.Close = l.instantWithin(next)
		first := i
		for first > 0 && l.allowed[first-1] {
			first--
		}
		if first > 0 {
			s.Opened = l.instant(first)
		}
	}
	for next < len(l.allowed) && !open(next) {
		next++
	}
	s.NextOpen = l.instantWithin(next)
	change := i + 1
	for change < len(l.allowed) && open(change) == s.Open && l.frozen[change] == s.Frozen {
		change++
	}
	s.ValidUntil = l.instantWithin(change)
	return s
}

func (l *timeline) instantWithin(i int) time.Time {
	if i >= len(l.allowed) {
		return time.Time{}
	}
	return l.instant(i)
}

// disagreement compares a state with the oracle's. A time that the oracle does
// not know has to lie outside its timeline.
func (l *timeline) disagreement(t time.Time, got State) string {
	want := l.answerAt(t)
	end := l.instant(len(l.allowed))
	same := func(name string, got, want time.Time, outside func(time.Time) bool) string {
		if want.IsZero() && (got.IsZero() || outside(got)) || got.Equal(want) {
			return ""
		}
		return fmt.Sprintf("%s %v, want %v; ", name, got, want)
	}
	after := func(t time.Time) bool { return !t.Before(end) }
	before := func(t time.Time) bool { return !t.After(l.start) }
	var b strings.Builder
	if got.Open != want.Open || got.Frozen != want.Frozen {
		fmt.Fprintf(&b, "open %v frozen %v, want %v %v; ", got.Open, got.Frozen, want.Open, want.Frozen)
	}
	if want.Open {
		b.WriteString(same("close", got.Close, want.Close, after))
		b.WriteString(same("opened", got.Opened, want.Opened, before))
	} else if !got.Close.IsZero() || !got.Opened.IsZero() {
		b.WriteString("shut, but has a close; ")
	}
	b.WriteString(same("next open", got.NextOpen, want.NextOpen, after))
	b.WriteString(same("valid until", got.ValidUntil, want.ValidUntil, after))
	return b.String()
}

// TestOracleKnowsItself checks the oracle on answers that were found by hand.
func TestOracleKnowsItself(t *testing.T) {
	for _, row := range readCases(t).Rows {
		d, err := time.ParseDuration(row.Duration)
		if err != nil {
			t.Fatal(err)
		}
		l := newTimeline(row.TimeZone, row.At.Add(-12*day), 24*24*60)
		l.recur(l.allowed, row.Schedule, d)
		got := l.answerAt(row.At)
		if got.Open != row.Open || !row.Close.IsZero() && !got.Close.Equal(row.Close) {
			t.Errorf("%s: open %v until %v, want %v until %v", row.ID, got.Open, got.Close, row.Open, row.Close)
		}
	}
}
