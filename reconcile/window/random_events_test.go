// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// happening is a random event: the oracle marks it from these numbers, and the
// package reads it from text.
type happening struct {
	start   time.Time // what the clock shows, or UTC
	days    int
	minutes int
	allDay  bool
	utc     bool
	since   int  // years before start, if yearly
	yearly  bool // on the same date
	except  bool // in the year of start
}

func (g generator) happening(near time.Time) happening {
	start := near.UTC().Truncate(time.Minute).Add(time.Duration(g.IntN(96*60)-48*60) * time.Minute)
	h := happening{start: start, days: g.IntN(3), minutes: g.IntN(30 * 60), yearly: g.IntN(3) == 0, since: g.IntN(20)}
	switch g.IntN(4) {
	case 0:
		h.utc = true
	case 1:
		h.start = h.start.Truncate(10 * time.Minute) // often the edge of a gap
	default:
		h.allDay, h.start, h.minutes, h.days = true, h.start.Truncate(day), 0, 1+g.IntN(4)
	}
	if h.days == 0 && h.minutes == 0 {
		h.minutes = 1
	}
	h.except = h.yearly && h.since > 0 && g.IntN(3) == 0
	if h.yearly && (h.start.Month() == time.February || h.start.Year()-h.since < FirstYear) {
		h.yearly, h.except = false, false // the oracle does not know leap days
	}
	return h
}

// text is the event in a calendar.
func (h happening) text(zone string, n int) string {
	form, params := icsTime, ";TZID="+zone
	switch {
	case h.allDay:
		form, params = icsDate, ";VALUE=DATE"
	case h.utc:
		form, params = icsTime+"Z", ""
	case n%2 == 0:
		params = "" // the zone of the window
	}
	start := h.start
	if h.yearly {
		start = start.AddDate(-h.since, 0, 0)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN:VEVENT\nSUMMARY:event %d\nDTSTART%s:%s\n", n, params, start.Format(form))
	switch {
	case h.allDay && n%3 == 0:
		fmt.Fprintf(&b, "DTEND;VALUE=DATE:%s\n", start.AddDate(0, 0, h.days).Format(icsDate))
	case h.allDay:
		fmt.Fprintf(&b, "DURATION:P%dD\n", h.days)
	default:
		fmt.Fprintf(&b, "DURATION:P%dDT%dM\n", h.days, h.minutes)
	}
	if h.yearly {
		b.WriteString("RRULE:FREQ=YEARLY\n")
	}
	if h.except {
		fmt.Fprintf(&b, "EXDATE%s:%s\n", params, h.start.Format(form))
	}
	b.WriteString("END:VEVENT\n")
	return b.String()
}

// happen marks the occurrence that touches the timeline.
func (l *timeline) happen(minutes []bool, h happening) {
	if h.except {
		return
	}
	wall := h.start.Unix() / 60
	find := l.find
	if h.utc {
		find = func(wall int64) int { return int(wall - l.start.Unix()/60) }
	}
	from := find(wall)
	mark(minutes, from, find(wall+int64(h.days)*24*60)+h.minutes-from)
}

// find is the minute in which the clock shows a time first or, if it never
// does, would have shown it without the change that skips it.
func (l *timeline) find(wall int64) int {
	for i, shown := range l.clock {
		previous := l.clock[max(i-1, 0)]
		if shown.wall == wall {
			return i - margin
		}
		if previous.wall < wall && wall < shown.wall {
			return int(wall - previous.offset - l.start.Unix()/60)
		}
	}
	panic("outside the timeline")
}

// events is a random calendar of few events, marked on the timeline.
func (g generator) events(l *timeline, minutes []bool, zone string, near time.Time, name string) Window {
	text := "BEGIN:VCALENDAR\n"
	for n := range 1 + g.IntN(4) {
		h := g.happening(near)
		if _, err := Events(EventsSpec{Name: name, TimeZone: zone, ICS: "BEGIN:VCALENDAR\n" + h.text(zone, n) + "END:VCALENDAR\n"}); err != nil {
			continue // nothing is left, or it never happens
		}
		text += h.text(zone, n)
		l.happen(minutes, h)
	}
	w, err := Events(EventsSpec{Name: name, TimeZone: zone, ICS: text + "END:VCALENDAR\n"})
	if err != nil {
		return Window{Name: name}
	}
	return w
}

// TestEventsAgainstOracle freezes an open calendar by events only.
func TestEventsAgainstOracle(t *testing.T) {
	groups := *oracleGroups / 4
	if raceDetector || testing.Short() {
		groups /= 20
		t.Logf("REDUCED to %d calendars under -race or -short", groups)
	}
	g := newGenerator(*oracleSeed + 2)
	frozen := 0
	for i := range groups {
		zone := pick(g, testZones...)
		near := pick(g, transitions()[zone]...)
		l := newTimeline(zone, near.Add(-5*day), 10*24*60)
		mark(l.allowed, 0, len(l.allowed))
		w := g.events(l, l.frozen, zone, near, "holidays")
		if w.when == nil {
			continue
		}
		c := Calendar{Always: true, Freezes: []Freeze{{Window: w}}}
		for range instantsPerCalendar {
			now := g.instant(near)
			s := c.At(now).Any()
			s.Opened = time.Time{} // always open
			if s.Open {
				s.Opened = l.start
			}
			if wrong := l.disagreement(now, s); wrong != "" {
				t.Fatalf("calendar %d of seed %d at %s: %s\n%s\n%s", i, *oracleSeed, now.Format(time.RFC3339Nano), wrong, w.ICS(), s.Explain())
			}
			if s.Frozen {
				frozen++
			}
		}
	}
	t.Logf("frozen in %d of %d cases", frozen, groups*instantsPerCalendar)
	if frozen < groups*10 {
		t.Errorf("frozen in %d cases only", frozen)
	}
}
