// SPDX-License-Identifier: Apache-2.0

package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTicksAreThoseOfTheLibrary compares every tick with what robfig/cron says
// comes next.
func TestTicksAreThoseOfTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(rapid.Uint64().Draw(t, "seed"))
		start := time.Date(1999+g.IntN(110), 1, 1, 0, g.IntN(366*24*60), g.IntN(60), g.IntN(2), time.UTC)
		text := g.schedule(start)
		schedule, err := parseCron(text)
		if err != nil {
			t.Fatal(err)
		}
		k, want := ticksOf(schedule), schedule.Next(start)
		n := 0
		for got := range k.after(start) {
			if !got.Equal(want) {
				t.Fatalf("%s after %v: %v, want %v", text, start, got, want)
			}
			if want = schedule.Next(want); n == 200 {
				return
			}
			n++
		}
		if !want.IsZero() {
			t.Fatalf("%s after %v ends before %v", text, start, want)
		}
	})
}

func TestTicksThatAreRare(t *testing.T) {
	for _, test := range []struct {
		schedule, after, want string
	}{
		{"0 0 29 2 *", "2096-02-29T00:00:00Z", ""}, // 2100 has none, 2104 is too far
		{"0 0 29 2 *", "2092-02-29T00:00:00Z", "2096-02-29T00:00:00Z"},
		{"0 0 31 4,6,9,11 *", "2026-01-01T00:00:00Z", ""},
		{"59 23 31 12 *", "2026-12-31T23:58:59Z", "2026-12-31T23:59:00Z"},
		{"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"},
	} {
		schedule, err := parseCron(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		got, k := "", ticksOf(schedule)
		for tick := range k.after(at(t, test.after)) {
			got = tick.Format(time.RFC3339)
			break
		}
		if next := schedule.Next(at(t, test.after)); got != test.want || next.IsZero() != (test.want == "") {
			t.Errorf("%s after %s: %q, want %q, the library says %v", test.schedule, test.after, got, test.want, next)
		}
	}
}
