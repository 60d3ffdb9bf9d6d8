// SPDX-License-Identifier: Apache-2.0

package window

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

func build(t *testing.T, name, zone, schedule, duration string) Window {
	t.Helper()
	w, err := Recurring(RecurringSpec{Name: name, TimeZone: zone, Schedule: schedule, Duration: duration})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func span(t *testing.T, name, start, end string) Window {
	t.Helper()
	w, err := OneOff(name, at(t, start), at(t, end))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExplain(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	yearEnd, err := OneOff("year-end", time.Date(2026, 12, 18, 0, 0, 0, 0, berlin), time.Date(2027, 1, 4, 0, 0, 0, 0, berlin))
	if err != nil {
		t.Fatal(err)
	}
	weeknights := build(t, "weeknights", "Europe/Berlin", "0 22 * * 1-5", "6h")
	c := Calendar{
		Allows:  []Window{weeknights, build(t, "saturday", "Europe/Berlin", "0 2 * * 6", "4h")},
		Freezes: []Freeze{{Window: yearEnd, Reason: "CHG-1234"}},
	}
	tests := []struct {
		name     string
		calendar Calendar
		at, want string
	}{
		{"a freeze cuts the window short", c, "2026-12-17T22:30:00Z",
			"weeknights opened 22:00 CET, closes 04:00; freeze year-end begins 00:00: effective close 00:00"},
		{"frozen", c, "2026-12-17T23:00:00Z",
			"frozen by year-end (CHG-1234) until 2027-01-04 00:00 CET; weeknights opens 2027-01-04 22:00"},
		{"shut", c, "2027-01-03T23:00:00Z", "shut: weeknights opens 22:00 CET"},
		{"another window closes it", c, "2026-01-17T01:30:00Z", "weeknights opened 22:00 CET, saturday closes 06:00"},
		{"the clocks change while it is open", Calendar{Allows: []Window{build(t, "w", "Europe/Berlin", "0 22 * * 6", "8h")}}, "2026-03-29T04:30:00Z",
			"w opened 22:00 CET, closes 07:00 CEST"},
		{"always", Calendar{Always: true}, "2026-01-17T01:30:00Z", "always open"},
		{"always, until a freeze", Calendar{Always: true, Freezes: c.Freezes}, "2026-01-17T01:30:00Z",
			"always open; freeze year-end begins 2026-12-18 00:00 CET: effective close 2026-12-18 00:00"},
		{"always, frozen", Calendar{Always: true, Freezes: c.Freezes}, "2026-12-20T00:00:00Z",
			"frozen by year-end (CHG-1234) until 2027-01-04 00:00 CET"},
		{"no window", Calendar{}, "2026-01-17T01:30:00Z", "shut: no window covers it"},
		{"over", Calendar{Allows: []Window{yearEnd}}, "2027-01-17T01:30:00Z", "shut: no window opens again"},
		{"over and frozen", Calendar{Freezes: c.Freezes}, "2026-12-20T00:00:00Z",
			"frozen by year-end (CHG-1234) until 2027-01-04 00:00 CET; no window opens again"},
		{"an offset in place of a zone", Calendar{Allows: []Window{span(t, "w", "2026-12-05T22:00:00+01:00", "2026-12-06T04:00:00+01:00")}}, "2026-12-05T00:00:00Z",
			"shut: w opens 22:00 +0100"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.calendar.At(at(t, test.at)).Any().Explain()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnreadableIsShut: what was never built opens nothing, and a freeze that
// was never built stops everything.
func TestUnreadableIsShut(t *testing.T) {
	now := at(t, "2026-06-15T12:00:00Z")
	nights := build(t, "w", "UTC", "0 0 * * *", "23h")
	for name, c := range map[string]Calendar{
		"zero calendar":          {},
		"zero window":            {Allows: []Window{{}}},
		"zero freeze":            {Allows: []Window{nights}, Freezes: []Freeze{{}}},
		"zero freeze and always": {Always: true, Freezes: []Freeze{{Window: span(t, "f", "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")}, {}}},
	} {
		s := c.At(now).Any()
		if s.Open || !s.NextOpen.IsZero() || s.Explain() == "" || len(c.Openings(now, now.Add(30*day))) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, spec := range []RecurringSpec{{}, {TimeZone: "UTC", Schedule: "* * * * *"}, {TimeZone: "Nowhere/Land", Schedule: "0 0 * * *", Duration: "1h"}} {
		w, err := Recurring(spec)
		if err == nil || (Calendar{Allows: []Window{w}}).At(now).Any().Open {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	if _, err := OneOff("w", time.Time{}, now); err == nil {
		t.Error("a window since the zero time")
	}
	if _, err := OneOff("w", now, now); err == nil {
		t.Error("an empty window")
	}
}

func TestSelectors(t *testing.T) {
	days := build(t, "days", "UTC", "0 8 * * *", "4h")
	gpu := build(t, "gpu", "UTC", "0 10 * * *", "8h")
	gpu.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	edge := build(t, "edge", "UTC", "0 20 * * *", "1h")
	edge.Selector = labels.SelectorFromSet(labels.Set{"pool": "edge"})
	now := at(t, "2026-06-15T11:00:00Z")
	type answer struct {
		Open  bool
		Close string
		By    string
	}
	tests := []struct {
		name   string
		allows []Window
		node   labels.Set
		want   answer
	}{
		{"a node without a pool", []Window{days, gpu, edge}, nil, answer{true, "12:00", "days"}},
		{"a node in both windows", []Window{days, gpu, edge}, labels.Set{"pool": "gpu"}, answer{true, "18:00", "days"}},
		{"outside every selector", []Window{gpu, edge}, labels.Set{"pool": "web"}, answer{false, "00:00", ""}},
		{"its window is shut", []Window{gpu, edge}, labels.Set{"pool": "edge"}, answer{false, "00:00", "edge"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := Calendar{Allows: test.allows}.At(now)
			for range 2 { // the second answer is a kept one
				s := m.For(test.node)
				if got := (answer{s.Open, s.Close.Format("15:04"), s.By}); got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
			}
			if s := m.Any(); !s.Open || s.Close.Format("15:04") != "18:00" {
				t.Errorf("for some node: %+v", s)
			}
		})
	}
}

// TestManySelectors has more windows than are kept as a set.
func TestManySelectors(t *testing.T) {
	var c Calendar
	for i := range 70 {
		w := build(t, "w", "UTC", "0 8 * * *", "4h")
		w.Selector = labels.SelectorFromSet(labels.Set{"n": string(rune('A' + i))})
		c.Allows = append(c.Allows, w)
	}
	m := c.At(at(t, "2026-06-15T11:00:00Z"))
	if !m.For(labels.Set{"n": string(rune('A' + 69))}).Open || m.For(labels.Set{"n": "none"}).Open {
		t.Error("the last window is not seen")
	}
}

func TestMomentIsSafeForManyGoroutines(t *testing.T) {
	gpu := build(t, "gpu", "Europe/Berlin", "0 10 * * *", "8h")
	gpu.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	c := Calendar{Allows: []Window{gpu, build(t, "days", "Africa/Cairo", "0 8 * * *", "4h")}}
	start := at(t, "2026-04-20T00:00:00Z")
	m := c.At(start)
	var want [200]State
	for i := range want {
		want[i] = c.At(start.Add(time.Duration(i) * time.Hour)).For(labels.Set{"pool": "gpu"})
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range want {
				now := start.Add(time.Duration((i*7+worker)%len(want)) * time.Hour)
				got := c.At(now).For(labels.Set{"pool": "gpu"})
				if !got.Equal(want[(i*7+worker)%len(want)]) || !m.For(nil).Equal(m.For(labels.Set{"a": "b"})) {
					t.Errorf("at %v: %+v", now, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestWindowsThatTakeTurns(t *testing.T) {
	days, nights := build(t, "days", "UTC", "0 6 * * *", "12h"), build(t, "nights", "UTC", "0 18 * * *", "12h")
	late := build(t, "late", "UTC", "0 18 * * *", "11h")
	now := at(t, "2026-06-15T11:00:00Z")
	if c := (Calendar{Allows: []Window{days, nights}}); !c.NeverCloses(now) || !c.At(now).Any().Open {
		t.Error("days and nights close")
	}
	if (Calendar{Allows: []Window{days, late}}).NeverCloses(now) {
		t.Error("days and late never close")
	}
	nights.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	if (Calendar{Allows: []Window{days, nights}}).NeverCloses(now) {
		t.Error("windows for different nodes never close")
	}
	if (Calendar{Always: true}).NeverCloses(now) {
		t.Error("always is said, not an accident")
	}
}

// TestSteadyStateDoesNotAllocate: a pass asks for every policy, often.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Log("NOT CHECKED under -race, which allocates")
		return
	}
	c := Calendar{
		Allows:  []Window{build(t, "w", "Europe/Berlin", "0 22 * * 1-5", "6h"), build(t, "s", "UTC", "0 2 * * 0", "4h")},
		Freezes: []Freeze{{Window: span(t, "f", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z")}},
	}
	now := at(t, "2026-06-15T11:00:00Z")
	c.At(now)
	if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Second); c.At(now).Any() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestShifts(t *testing.T) {
	from := at(t, "2026-01-15T12:00:00Z")
	tests := []struct {
		name string
		w    Window
		want []string
	}{
		{"skipped and repeated", build(t, "w", "Europe/Berlin", "30 2 * * 0", "1h"),
			[]string{"2026-03-29 02:30 skipped 2026-03-29T03:30:00+02:00", "2026-10-25 02:30 twice 2026-10-25T02:30:00+02:00"}},
		{"the first minute of a gap", build(t, "w", "Europe/Berlin", "0 2 * * 0", "1h"),
			[]string{"2026-03-29 02:00 skipped 2026-03-29T03:00:00+02:00", "2026-10-25 02:00 twice 2026-10-25T02:00:00+02:00"}},
		{"the minute after", build(t, "w", "Europe/Berlin", "0 3 * * 0", "1h"), nil},
		{"a gap of half an hour", build(t, "w", "Australia/Lord_Howe", "15 2 * * *", "1h"),
			[]string{"2026-10-04 02:15 skipped 2026-10-04T02:45:00+11:00"}},
		{"every hour names none", build(t, "w", "Europe/Berlin", "30 * * * *", "30m"), nil},
		{"a zone without changes", build(t, "w", "Asia/Kolkata", "30 2 * * *", "1h"), nil},
		{"a one-off", span(t, "w", "2026-03-29T02:30:00+01:00", "2026-03-29T04:30:00+01:00"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range test.w.Shifts(from, from.AddDate(1, 0, 0)) {
				kind := "skipped"
				if s.Twice {
					kind = "twice"
				}
				got = append(got, s.Written+" "+kind+" "+s.Opens.Format(time.RFC3339))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStartsAreInOrderAcrossAGap(t *testing.T) {
	w := build(t, "w", "Europe/Berlin", "*/30 2,3 * * *", "20m")
	var got []string
	for _, s := range w.Starts(at(t, "2026-03-29T00:00:00Z"), 4) {
		got = append(got, s.Format("02 15:04 MST"))
	}
	want := []string{"29 03:00 CEST", "29 03:30 CEST", "30 02:00 CEST", "30 02:30 CEST"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A clock that shows a year before the first, which is the zero time, opens nothing.
func TestBeforeYearOneIsShut(t *testing.T) {
	w := build(t, "nights", "Europe/Berlin", "0 22 * * 1-5", "6h")
	for _, now := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-40, 3, 1, 12, 0, 0, 0, time.UTC), {}} {
		if s := (Calendar{Allows: []Window{w}}).At(now).Any(); s.Open && s.Close.Sub(s.Opened) != 6*time.Hour {
			t.Errorf("at %s: %s", now, s.Explain())
		}
	}
}

func TestExplainSaysHowFarItLooked(t *testing.T) {
	nights := build(t, "nights", "UTC", "0 22 * * *", "2h")
	covers := Freeze{Window: build(t, "evenings", "UTC", "0 21 * * *", "4h")}
	over, err := OneOff("move", at(t, "2026-01-03T22:00:00Z"), at(t, "2026-01-04T04:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		calendar Calendar
		covered  bool
		want     string
	}{
		"every opening is covered": {Calendar{Allows: []Window{nights}, Freezes: []Freeze{covers}}, true, "shut: freezes cover the next openings, as far as they are looked for"},
		"nothing opens again":      {Calendar{Allows: []Window{over}}, false, "shut: no window opens again"},
	}
	for name, test := range tests {
		s := test.calendar.At(at(t, "2026-02-01T12:00:00Z")).Any()
		if got := s.Explain(); got != test.want || s.Covered != test.covered {
			t.Errorf("%s: %q, covered %t", name, got, s.Covered)
		}
	}
}

// Of windows that open together the one that is listed first is named, also when
// it has closed since.
func TestWindowsThatOpenTogether(t *testing.T) {
	c := Calendar{Allows: []Window{build(t, "short", "UTC", "0 22 * * *", "2h"), build(t, "long", "UTC", "0 22 * * *", "6h")}}
	before, after := c.At(at(t, "2026-02-01T23:00:00Z")).Any(), c.At(at(t, "2026-02-02T01:00:00Z")).Any()
	if before.By != "short" || !after.Equal(before) {
		t.Errorf("by %s, then by %s", before.By, after.By)
	}
}
