// SPDX-License-Identifier: Apache-2.0

package window

import (
	"testing"
	"time"
)

// FuzzRecurring: no text panics or takes long, and a window that is accepted
// opens at times that its schedule names, and closes again.
func FuzzRecurring(f *testing.F) {
	for _, row := range []RecurringSpec{
		{"w", "Europe/Berlin", "0 22 * * 1-5", "6h"}, {"w", "UTC", "TZ=UTC", "1h"}, {"w", "UTC", "CRON_TZ= 0 0 * * *", "1h"},
		{"w", "UTC", ", * * * *", "1h"}, {"w", "UTC", "@every -1h", "1h"}, {"w", "UTC", "0 0 30 2 *", "1h"},
		{"w", "Local", "*/90 1-31/100 * * ?", "24h"}, {"w", "Africa/Cairo", "0 0 29 2 *", "34000h"}, {"w", "UTC", "* * * * *", "1m"},
		{"w", "UTC", "0-59/2,1-59/2 * * * *", "1m"}, {"w", "UTC", "0 0 * * 0,1,2,3,4,5", "24h"}, {"w", "America/Havana", "0 0 * jan-dec SUN-SAT", "9223372036s"},
	} {
		f.Add(row.TimeZone, row.Schedule, row.Duration)
	}
	now := time.Date(2026, 3, 29, 0, 45, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, zone, schedule, duration string) {
		w, err := Recurring(RecurringSpec{Name: "w", TimeZone: zone, Schedule: schedule, Duration: duration})
		c := Calendar{Allows: []Window{w}}
		s := c.At(now).Any()
		if err != nil {
			if s.Open || !s.NextOpen.IsZero() {
				t.Fatalf("refused, but %+v", s)
			}
			return
		}
		if w.Length() <= 0 || w.Length()%time.Minute != 0 {
			t.Fatalf("open for %v", w.Length())
		}
		if s.Open && (s.Close.IsZero() || s.Opened.After(now) || !s.Close.After(now) || s.Close.Sub(s.Opened) < w.Length()) {
			t.Fatalf("open from %v to %v at %v", s.Opened, s.Close, now)
		}
		if s.Open && len(w.Starts(now.Add(-w.Length()), 1)) == 0 {
			t.Fatal("open without an opening")
		}
		if n := ticksWalked(w, now); n > 2*maxTicks {
			t.Fatalf("an answer walks %d openings", n)
		}
	})
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
