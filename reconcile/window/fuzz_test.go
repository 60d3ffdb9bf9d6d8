// SPDX-License-Identifier: Apache-2.0

package window

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/casefile"
)

// inTime fails if reading takes longer than a commit can wait for, whenever it
// is tried: on a busy machine some tries are slow.
func inTime(t *testing.T, read func()) {
	t.Helper()
	const limit, tries = 50 * time.Millisecond, 10
	fastest := time.Hour
	for range tries {
		start := time.Now()
		read()
		if fastest = min(fastest, time.Since(start)); fastest <= limit || raceDetector {
			return
		}
	}
	t.Fatalf("takes %v", fastest)
}

// fuzzNow is in the night on which Europe sets its clocks.
var fuzzNow = time.Date(2026, 3, 29, 0, 45, 0, 0, time.UTC)

// shutFor fails if what was refused opens, or does not freeze.
func shutFor(t *testing.T, w Window) {
	t.Helper()
	for _, at := range []time.Time{fuzzNow, fuzzNow.AddDate(0, 6, 3), fuzzNow.AddDate(-30, 0, 0)} {
		if s := (Calendar{Allows: []Window{w}}).At(at).Any(); s.Open || !s.NextOpen.IsZero() {
			t.Fatalf("refused, but %+v", s)
		}
		if s := (Calendar{Always: true, Freezes: []Freeze{{Window: w}}}).At(at).Any(); s.Open || !s.Frozen {
			t.Fatalf("refused, but as a freeze %+v", s)
		}
	}
}

// FuzzRecurring: no text panics or takes long, what is refused is shut, and a
// window that is accepted is open when the oracle says so.
func FuzzRecurring(f *testing.F) {
	for _, row := range []RecurringSpec{
		{"w", "Europe/Berlin", "0 22 * * 1-5", "6h"}, {"w", "UTC", "TZ=UTC", "1h"}, {"w", "UTC", "CRON_TZ= 0 0 * * *", "1h"},
		{"w", "UTC", ", * * * *", "1h"}, {"w", "UTC", "@every -1h", "1h"}, {"w", "UTC", "0 0 30 2 *", "1h"},
		{"w", "Local", "*/90 1-31/100 * * ?", "24h"}, {"w", "Africa/Cairo", "0 0 29 2 *", "34000h"}, {"w", "UTC", "* * * * *", "1m"},
		{"w", "UTC", "0-59/2,1-59/2 * * * *", "1m"}, {"w", "UTC", "0 0 * * 0,1,2,3,4,5", "24h"}, {"w", "America/Havana", "0 0 * jan-dec SUN-SAT", "9223372036s"},
		{"w", "Europe/Berlin", "*/30 2 * * *", "45m"}, {"w", "Europe/Dublin", "0 1,2 29,30 3 *", "3h"}, {"w", "US/Eastern", "0 1 */2 * 6", "25h"},
	} {
		f.Add(row.TimeZone, row.Schedule, row.Duration)
	}
	f.Fuzz(func(t *testing.T, zone, schedule, duration string) {
		var w Window
		var err error
		inTime(t, func() {
			w, err = Recurring(RecurringSpec{Name: "w", TimeZone: zone, Schedule: schedule, Duration: duration})
		})
		if err != nil {
			shutFor(t, w)
			return
		}
		if w.Length() <= 0 || w.Length()%time.Minute != 0 {
			t.Fatalf("open for %v", w.Length())
		}
		c := Calendar{Allows: []Window{w}}
		s := c.At(fuzzNow).Any()
		if s.Open && (s.Close.IsZero() || s.Opened.After(fuzzNow) || !s.Close.After(fuzzNow) || s.Close.Sub(s.Opened) < w.Length()) {
			t.Fatalf("open from %v to %v at %v", s.Opened, s.Close, fuzzNow)
		}
		if s.Open && len(w.Starts(fuzzNow.Add(-w.Length()), 1)) == 0 {
			t.Fatal("open without an opening")
		}
		if n := ticksWalked(w, fuzzNow); n > 2*maxTicks {
			t.Fatalf("an answer walks %d openings", n)
		}
		for hours := -12; hours <= 12; hours += 3 {
			at := fuzzNow.Add(time.Duration(hours)*time.Hour + time.Duration(hours)*time.Minute)
			if got := (Calendar{Always: true, Freezes: []Freeze{{Window: w}}}).At(at).Any(); got.Open == c.At(at).Any().Open {
				t.Fatalf("at %v both an allow and a freeze are open: %v", at, got.Open)
			}
		}
		agreesWithOracle(t, w.when.(*recurring))
	})
}

// agreesWithOracle compares instants around fuzzNow, if the oracle reads the
// schedule: it knows numbers only, and short openings.
func agreesWithOracle(t *testing.T, r *recurring) {
	t.Helper()
	if r.duration > margin*time.Minute-3*day || strings.ContainsFunc(r.spec.Schedule, func(c rune) bool { return !strings.ContainsRune("0123456789,-*/ ", c) }) {
		return
	}
	l := newTimeline(r.spec.TimeZone, fuzzNow.Add(-day), 2*24*60)
	l.recur(l.allowed, r.spec.Schedule, r.duration)
	c := Calendar{Allows: []Window{{Name: "w", when: r}}}
	for m := 0; m < len(l.allowed); m += 37 {
		at := l.instant(m)
		if got := c.At(at).Any(); got.Open != l.allowed[m] {
			t.Fatalf("at %v open %v, the oracle says %v", at, got.Open, l.allowed[m])
		}
	}
}

// FuzzEvents: no calendar panics or takes long, what is refused is shut, and
// what is accepted is in force when one of its events is, and kept as it is.
func FuzzEvents(f *testing.F) {
	for _, file := range casefile.Files(f, "testdata/events/*.txt") {
		a, _ := casefile.Read(f, file)
		f.Add(strings.Fields(string(a.Comment))[0], string(a.Files[0].Data))
	}
	for _, lines := range []string{
		"DTSTART;X=a", "DTSTART;X=\"", "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;INTERVAL=0", "DTSTART;VALUE=DATE:20260329\nRRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3",
		"DTSTART;VALUE=DATE:20260329\nRRULE:FREQ=DAILY;UNTIL=20360101;BYMONTH=2;BYMONTHDAY=30", "DTSTART:20260329T013000Z\nDURATION:PT9999999S\nRRULE:FREQ=WEEKLY;COUNT=100",
		"DTSTART;TZID=Europe/Berlin:20260329T023000\nDTEND;TZID=Europe/Berlin:20260329T033000", "DTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY;BYWEEKNO=1,53;BYSETPOS=-1",
		"DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "DTSTART;VALUE=DATE:20260101\nDURATION:P366D\nRRULE:FREQ=YEARLY",
	} {
		f.Add("Europe/Berlin", "BEGIN:VCALENDAR\nBEGIN:VEVENT\n"+lines+"\nEND:VEVENT\nEND:VCALENDAR\n")
	}
	f.Fuzz(func(t *testing.T, zone, ics string) {
		if len(ics) > 16<<10 {
			return
		}
		var w Window
		var err error
		inTime(t, func() { w, err = Events(EventsSpec{Name: "w", TimeZone: zone, ICS: ics}) })
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is not one line", err)
			}
			shutFor(t, w)
			return
		}
		again, err := Events(EventsSpec{Name: "w", TimeZone: zone, ICS: w.ICS()})
		if err != nil || !again.Equal(w) {
			t.Fatalf("kept: %v\n%s\nnot\n%s", err, again.ICS(), w.ICS())
		}
		e := w.when.(*events)
		instants := []time.Time{fuzzNow}
		for _, o := range append(slices.Clone(e.spans[:min(len(e.spans), 3)]), e.repeated(fuzzNow, fuzzNow.AddDate(1, 0, 0))...) {
			instants = append(instants, o.start, o.end, o.end.Add(-1))
			if len(instants) > 12 {
				break
			}
		}
		for _, at := range instants {
			s := (Calendar{Always: true, Freezes: []Freeze{{Window: w}}}).At(at).Any()
			if s.Open == e.happensAt(at) {
				t.Fatalf("at %v open %v\n%s", at, s.Open, w.ICS())
			}
			if !s.ValidUntil.IsZero() && !s.ValidUntil.After(at) {
				t.Fatalf("at %v valid until %v", at, s.ValidUntil)
			}
		}
	})
}

// happensAt asks each event and each year by itself.
func (e *events) happensAt(t time.Time) bool {
	for i := range e.list {
		ev := &e.list[i]
		at := slices.Clone(ev.starts)
		for year := t.Year() - 2; ev.rule != nil && year <= t.Year()+1; year++ {
			for w := range ev.rule.in(year, ev.first) {
				if !slices.Contains(ev.except, w) {
					at = append(at, w)
				}
			}
		}
		for _, w := range at {
			from := stamp{wall: w, loc: ev.loc}.at()
			end := stamp{wall: w.AddDate(0, 0, ev.length.days), loc: ev.loc}.at().Add(ev.length.elapsed)
			if !t.Before(from) && t.Before(end) {
				return true
			}
		}
	}
	return false
}

// ticksWalked is the cost of one answer in openings, the last look back only.
func ticksWalked(w Window, now time.Time) int {
	r := w.when.(*recurring)
	p := w.phase(now)
	from := now.Add(-2 * r.duration)
	if p.open && p.from.Before(from) {
		from = p.from
	}
	n := 0
	for s := range r.starts(from) {
		n++
		if until := p.until(); s.After(now) && !s.Before(until) {
			break
		}
	}
	return n
}

// FuzzParseDuration: what is accepted is longer than zero, and reads the same
// when it is written again.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"6h", "6", "", "-1h", "7d", "90s", "1.5h", "9999999999h", "1h30m", "+5m", "0d", "999999999d", "١h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			if d != 0 {
				t.Fatalf("%q: %v and %v", s, d, err)
			}
			return
		}
		if again, err := ParseDuration(FormatDuration(d)); d <= 0 || err != nil || again != d {
			t.Fatalf("%q is %v, again %v, %v", s, d, again, err)
		}
	})
}
