// SPDX-License-Identifier: Apache-2.0

package window

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	oracleSeed   = flag.Uint64("oracle.seed", 1, "seed of the comparison with the oracle")
	oracleGroups = flag.Int("oracle.groups", 2000, "calendars compared with the oracle")
)

// instantsPerCalendar are compared for each random calendar.
const instantsPerCalendar = 100

var testZones = []string{
	"Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Chicago", "America/Havana", "America/New_York",
	"America/Nuuk", "America/Phoenix", "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll",
	"Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran",
	"Asia/Tokyo", "Atlantic/Azores", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Dublin",
	"Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham",
	"Pacific/Kwajalein", "UTC",
}

// transitionsOf lists when the clock of a zone is changed, from 1990 to 2048,
// and some ends of leap years, where package time is not sure of its bounds.
func transitionsOf(zone string) []time.Time {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	list := []time.Time{
		time.Date(2027, 2, 28, 23, 0, 0, 0, time.UTC), // for zones without any
		time.Date(2028, 12, 31, 12, 0, 0, 0, time.UTC),
		time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC),
		time.Date(2044, 12, 31, 12, 0, 0, 0, time.UTC),
	}
	start := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range 58 * 365 {
		for h := range 24 {
			at := start.Add(time.Duration(24*d+h) * time.Hour)
			_, before := at.In(loc).Zone()
			if _, in24h := at.Add(day - time.Duration(h)*time.Hour).In(loc).Zone(); in24h == before {
				break // no change in the rest of the day
			}
			if _, after := at.Add(time.Hour).In(loc).Zone(); after != before {
				list = append(list, at.Add(time.Hour))
			}
		}
	}
	return list
}

// transitions are those of every zone in the tests.
var transitions = sync.OnceValue(func() map[string][]time.Time {
	m := map[string][]time.Time{}
	for _, zone := range testZones {
		m[zone] = transitionsOf(zone)
	}
	return m
})

// generator makes calendars whose openings lie near the changes of the clock.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, 27))}
}

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) field(low, high int, usual ...string) string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprint(low + g.IntN(high-low+1))
	case 1:
		from := low + g.IntN(high-low+1)
		return fmt.Sprintf("%d-%d", from, min(from+g.IntN(6), high))
	case 2:
		return fmt.Sprintf("%d,%d", low+g.IntN(high-low+1), low+g.IntN(high-low+1))
	}
	return pick(g, usual...)
}

func (g generator) schedule(near time.Time) string {
	return strings.Join([]string{
		g.field(0, 59, "0", "0", "0", "30", "45", "*/15", "*/20"),
		g.field(0, 23, "0", "1", "2", "3", "2", "0-3", "*/2", "22", "23", "*"),
		g.field(1, 31, "*", "*", "*", "*", "*/2", "1-7", fmt.Sprint(near.Day())),
		g.field(1, 12, "*", "*", "*", "*", "*", fmt.Sprint(int(near.Month()))),
		g.field(0, 6, "*", "*", "*", "SUN", "1-5", "5", "6,0", "mon-thu"),
	}, " ")
}

func (g generator) duration() time.Duration {
	minutes := pick(g, 1+g.IntN(120), 15*(1+g.IntN(32)), 60*(1+g.IntN(30)), 60*(1+g.IntN(80)))
	return time.Duration(minutes) * time.Minute
}

// recurring is a window that Recurring takes.
func (g generator) recurring(zone string, near time.Time, name string) Window {
	for {
		spec := RecurringSpec{Name: name, TimeZone: zone, Schedule: g.schedule(near), Duration: g.duration().String()}
		if w, err := Recurring(spec); err == nil {
			return w
		}
	}
}

// oneOff is a span of whole minutes near an instant.
func (g generator) oneOff(near time.Time, name string) Window {
	start := near.Truncate(time.Minute).Add(time.Duration(g.IntN(96*60)-48*60) * time.Minute)
	w, err := OneOff(name, start, start.Add(time.Duration(1+g.IntN(24*60))*time.Minute))
	if err != nil {
		panic(err)
	}
	return w
}

// calendar is a random calendar and the timeline that the oracle makes of it.
func (g generator) calendar() (Calendar, *timeline, time.Time, []string) {
	zone := pick(g, testZones...)
	near := pick(g, transitions()[zone]...)
	l := newTimeline(zone, near.Add(-5*day), 10*24*60)
	var c Calendar
	var said []string
	allows, freezes := pick(g, 1, 1, 1, 2, 3), pick(g, 0, 0, 1, 2)
	for i := range allows + freezes {
		name := fmt.Sprint("w", i)
		minutes := l.allowed
		if i >= allows {
			minutes = l.frozen
		}
		var w Window
		if i >= allows && g.IntN(4) == 0 {
			if w = g.events(l, minutes, zone, near, name); w.when == nil {
				continue
			}
		} else if g.IntN(6) == 0 {
			w = g.oneOff(near, name)
			o := w.when.(oneOff)
			mark(minutes, int(o.start.Sub(l.start)/time.Minute), int(o.end.Sub(o.start)/time.Minute))
		} else {
			w = g.recurring(zone, near, name)
			l.recur(minutes, w.when.(*recurring).spec.Schedule, w.Length())
		}
		if i < allows {
			c.Allows = append(c.Allows, w)
		} else {
			c.Freezes = append(c.Freezes, Freeze{Window: w})
		}
		said = append(said, fmt.Sprintf("%d: %s", i, w))
	}
	return c, l, near, append(said, fmt.Sprintf("%d are freezes", freezes))
}

// instant is a random one within 36 hours, often at the edge of a minute.
func (g generator) instant(near time.Time) time.Time {
	t := near.Truncate(time.Minute).Add(time.Duration(g.IntN(72*60)-36*60) * time.Minute)
	return t.Add(pick(g, 0, 0, -time.Nanosecond, time.Nanosecond, 59*time.Second))
}

// TestAgainstOracle compares every field of a State with the oracle's answer,
// within 36 hours of a change of the clocks.
func TestAgainstOracle(t *testing.T) {
	groups := *oracleGroups
	if raceDetector || testing.Short() {
		groups /= 20
		t.Logf("REDUCED to %d calendars under -race or -short", groups)
	}
	g := newGenerator(*oracleSeed)
	kinds := map[string]int{}
	for i := range groups {
		c, l, near, said := g.calendar()
		for range instantsPerCalendar {
			now := g.instant(near)
			s := c.At(now).Any()
			if wrong := l.disagreement(now, s); wrong != "" {
				t.Fatalf("calendar %d of seed %d at %s: %s\n%s\n%s", i, *oracleSeed, now.Format(time.RFC3339Nano), wrong, strings.Join(said, "\n"), s.Explain())
			}
			kinds[fmt.Sprintf("open %v frozen %v", s.Open, s.Frozen)]++
		}
	}
	t.Logf("%d cases: %v", groups*instantsPerCalendar, kinds)
	if kinds["open true frozen false"] < groups || kinds["open false frozen true"] < groups {
		t.Errorf("the cases are lopsided: %v", kinds)
	}
}

// TestOpeningsAgainstOracle compares the list of openings with the spans of the
// timeline, minute by minute.
func TestOpeningsAgainstOracle(t *testing.T) {
	groups := *oracleGroups / 10
	if raceDetector || testing.Short() {
		groups /= 10
		t.Logf("REDUCED to %d calendars under -race or -short", groups)
	}
	g := newGenerator(*oracleSeed + 1)
	for i := range groups {
		c, l, _, said := g.calendar()
		got := make([]bool, len(l.allowed))
		end := l.instant(len(got))
		openings := c.Openings(l.start, end)
		for _, o := range openings {
			for m := max(0, l.index(o.Start)); m < len(got) && (o.End.IsZero() || l.instant(m).Before(o.End)); m++ {
				got[m] = true
			}
		}
		for m := range got {
			if want := l.allowed[m] && !l.frozen[m]; got[m] != want {
				t.Fatalf("calendar %d at %v: open %v, want %v\n%s\n%v", i, l.instant(m), got[m], want, strings.Join(said, "\n"), openings)
			}
		}
		if !slices.IsSortedFunc(openings, func(a, b Opening) int { return a.Start.Compare(b.Start) }) {
			t.Fatalf("not in order: %v", openings)
		}
	}
}
