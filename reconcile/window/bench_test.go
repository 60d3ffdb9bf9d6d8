// SPDX-License-Identifier: Apache-2.0

package window

import (
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
	{TimeZone: "Europe/Berlin", Schedule: "0 * 1-20 * *", Duration: "1h"},
	{TimeZone: "Africa/Cairo", Schedule: "0 0 29 2 *", Duration: "100h"},
	{TimeZone: "America/Santiago", Schedule: "*/15 * * * 1-6", Duration: "30m"},
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
