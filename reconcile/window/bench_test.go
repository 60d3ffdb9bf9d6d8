// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

func recurringForBench(b *testing.B, zone, schedule, duration string) Window {
	b.Helper()
	w, err := Recurring(RecurringSpec{Name: "w", TimeZone: zone, Schedule: schedule, Duration: duration})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

var benchNow = time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)

// BenchmarkAt is what a pass pays for one policy: again and again for about the
// same instant.
func BenchmarkAt(b *testing.B) {
	weekly := recurringForBench(b, "Europe/Berlin", "0 22 * * 1-5", "6h")
	sunday := recurringForBench(b, "America/New_York", "0 2 * * 0", "4h")
	freeze, err := OneOff("f", benchNow.Add(100*day), benchNow.Add(110*day))
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]Calendar{
		"weekly":         {Allows: []Window{weekly}},
		"weekly, freeze": {Allows: []Window{weekly}, Freezes: []Freeze{{Window: freeze}}},
		"two windows":    {Allows: []Window{weekly, sunday}, Freezes: []Freeze{{Window: freeze}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			now := benchNow
			for b.Loop() {
				now = now.Add(time.Second)
				if now.Sub(benchNow) > 7*day {
					now = benchNow
				}
				c.At(now).Any()
			}
		})
	}
}

// worstSchedules are accepted, and cost the most that is.
var worstSchedules = []RecurringSpec{
	{TimeZone: "Europe/Berlin", Schedule: "*/10 * * * *", Duration: "9m"},
	{TimeZone: "Europe/Berlin", Schedule: "0 * 1-17 * *", Duration: "1h"},
	{TimeZone: "Africa/Cairo", Schedule: "0 0 29 2 *", Duration: "100h"},
	{TimeZone: "America/Santiago", Schedule: "*/15 * * * *", Duration: "14m"},
	{TimeZone: "Europe/Berlin", Schedule: "0 0 * 1-11 *", Duration: "24h"},
}

// BenchmarkAtWorst has nothing in the memo.
func BenchmarkAtWorst(b *testing.B) {
	for _, spec := range worstSchedules {
		b.Run(spec.Schedule+" "+spec.Duration, func(b *testing.B) {
			w := recurringForBench(b, spec.TimeZone, spec.Schedule, spec.Duration)
			r := w.when.(*recurring)
			c := Calendar{Allows: []Window{w}}
			now := time.Date(2026, 11, 15, 12, 10, 0, 0, time.UTC)
			for b.Loop() {
				r.memo = memo{}
				c.At(now).Any()
			}
		})
	}
}

// forget empties the memo of every window.
func forget(c Calendar) {
	clear := func(w Window) {
		switch when := w.when.(type) {
		case *recurring:
			when.memo = memo{}
		case *events:
			when.memo = memo{}
		}
	}
	for _, w := range c.Allows {
		clear(w)
	}
	for _, f := range c.Freezes {
		clear(f.Window)
	}
}

// BenchmarkAtShadowed has a freeze that covers every opening, one by one.
func BenchmarkAtShadowed(b *testing.B) {
	hours := recurringForBench(b, "Europe/Berlin", "0 * * * *", "30m")
	c := Calendar{
		Allows:  []Window{hours},
		Freezes: []Freeze{{Window: recurringForBench(b, "Europe/Berlin", "0 * * * *", "45m")}},
	}
	now := time.Date(2026, 11, 15, 12, 10, 0, 0, time.UTC)
	for b.Loop() {
		forget(c)
		if s := c.At(now).Any(); !s.NextOpen.IsZero() {
			b.Fatal(s.NextOpen)
		}
	}
}

// holidaysForBench is a calendar with that many events, every other one a rule
// without end.
func holidaysForBench(b testing.TB, n int) Window {
	b.Helper()
	var text strings.Builder
	text.WriteString("BEGIN:VCALENDAR\n")
	for i := range n {
		d := time.Date(2020+i%10, 1, 1+i*7, 0, 0, 0, 0, time.UTC)
		rule := ""
		switch i % 4 {
		case 0:
			rule = "RRULE:FREQ=YEARLY\n"
		case 1:
			rule = fmt.Sprintf("RRULE:FREQ=YEARLY;BYMONTH=%d;BYDAY=%dMO\n", 1+i%12, 1+i%5)
		}
		fmt.Fprintf(&text, "BEGIN:VEVENT\nUID:%d\nDTSTART;VALUE=DATE:%s\n%sSUMMARY:Day %d\nEND:VEVENT\n", i, d.Format(icsDate), rule, i)
	}
	text.WriteString("END:VCALENDAR\n")
	w, err := Events(EventsSpec{Name: "holidays", TimeZone: "Europe/Berlin", ICS: text.String()})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkAtEvents has nothing in the memo, but for "again".
func BenchmarkAtEvents(b *testing.B) {
	for _, n := range []int{20, 500} {
		w := holidaysForBench(b, n)
		c := Calendar{Allows: []Window{recurringForBench(b, "Europe/Berlin", "0 22 * * 1-5", "6h")}, Freezes: []Freeze{{Window: w}}}
		now := time.Date(2026, 11, 15, 12, 10, 0, 0, time.UTC)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				forget(c)
				c.At(now).Any()
			}
		})
		b.Run(fmt.Sprint(n, " again"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.At(now).Any()
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	text := holidaysForBench(b, 500).ICS()
	for b.Loop() {
		if _, err := Events(EventsSpec{Name: "holidays", TimeZone: "Europe/Berlin", ICS: text}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	w := recurringForBench(b, "Europe/Berlin", "0 22 * * 1-5", "6h")
	w.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	m := Calendar{Allows: []Window{w}}.At(benchNow)
	node := labels.Set{"pool": "gpu", "zone": "a"}
	b.ReportAllocs()
	for b.Loop() {
		m.For(node)
	}
}

func BenchmarkRecurring(b *testing.B) {
	for b.Loop() {
		recurringForBench(b, "Europe/Berlin", "0 22 * * 1-5", "6h")
	}
}

// TestWorkIsBounded counts openings, because a clock would measure the machine.
func TestWorkIsBounded(t *testing.T) {
	for _, spec := range worstSchedules {
		w, err := Recurring(spec)
		if err != nil {
			t.Fatal(err)
		}
		for now := benchNow; now.Year() < 2042; now = now.Add(997 * time.Hour) {
			if n := ticksWalked(w, now); n > 2*maxTicks {
				t.Errorf("%s at %v: %d openings", w, now, n)
			}
		}
	}
}

// TestEndOfALeapYear: package time may give bounds of an offset that lie before
// the time that was asked for. A walk along them does not end.
func TestEndOfALeapYear(t *testing.T) {
	for _, year := range []int{2028, 2040, 2044, 2048} {
		w, err := Recurring(RecurringSpec{Name: "w", TimeZone: "Europe/Berlin", Schedule: "0 22 * * *", Duration: "6h"})
		if err != nil {
			t.Fatal(err)
		}
		s := Calendar{Allows: []Window{w}}.At(time.Date(year, 12, 31, 12, 0, 0, 0, time.UTC)).Any()
		if want := time.Date(year, 12, 31, 21, 0, 0, 0, time.UTC); s.Open || !s.NextOpen.Equal(want) {
			t.Errorf("opens %v, want %v", s.NextOpen, want)
		}
	}
}
