// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOpeningUnderWayHasItsRealStart(t *testing.T) {
	nights := build(t, "nights", "Europe/Berlin", "0 22 * * *", "6h")
	freeze := func(start, end string) Freeze {
		w, err := OneOff("f", at(t, start), at(t, end))
		if err != nil {
			t.Fatal(err)
		}
		return Freeze{Window: w}
	}
	for _, test := range []struct {
		name     string
		calendar Calendar
		from     string
		want     string
	}{
		{"window", Calendar{Allows: []Window{nights}}, "2026-01-17T01:00:00Z", "2026-01-16T21:00:00Z"},
		{"after a freeze", Calendar{Allows: []Window{nights}, Freezes: []Freeze{freeze("2026-01-16T00:00:00Z", "2026-01-16T23:00:00Z")}},
			"2026-01-17T01:00:00Z", "2026-01-16T23:00:00Z"},
		{"after the second freeze", Calendar{Allows: []Window{nights}, Freezes: []Freeze{
			freeze("2026-01-16T21:30:00Z", "2026-01-16T22:00:00Z"), freeze("2026-01-16T23:00:00Z", "2026-01-17T00:30:00Z"),
		}}, "2026-01-17T01:00:00Z", "2026-01-17T00:30:00Z"},
		{"always, since a freeze", Calendar{Always: true, Freezes: []Freeze{freeze("2025-12-20T00:00:00Z", "2026-01-02T00:00:00Z")}},
			"2026-01-17T01:00:00Z", "2026-01-02T00:00:00Z"},
		{"always", Calendar{Always: true}, "2026-01-17T01:00:00Z", "2026-01-17T01:00:00Z"},
		{"just opening", Calendar{Allows: []Window{nights}}, "2026-01-16T21:00:00Z", "2026-01-16T21:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := at(t, test.from)
			got := test.calendar.Openings(from, from.Add(time.Hour))
			if len(got) != 1 || !got[0].Start.Equal(at(t, test.want)) {
				t.Errorf("got %v, want one that starts %s", got, test.want)
			}
		})
	}
}

// TestOpeningsSayWhatMovesThem: what the clocks and freezes do to an opening is
// said with it.
func TestOpeningsSayWhatMovesThem(t *testing.T) {
	for _, test := range []struct {
		name, zone, schedule, duration, from string
		want                                 string
	}{
		{"an ordinary night", "Europe/Berlin", "0 22 * * *", "6h", "2027-03-26T12:00:00Z", "6h"},
		{"forward", "Europe/Berlin", "0 22 * * *", "6h", "2027-03-27T12:00:00Z", "7h, clocks go forward 02:00 to 03:00"},
		{"back", "Europe/Berlin", "0 22 * * *", "6h", "2027-10-30T12:00:00Z", "5h, clocks go back 03:00 to 02:00"},
		{"half an hour", "Australia/Lord_Howe", "0 0 * * *", "6h", "2026-10-03T12:00:00Z", "6h30m, clocks go forward 02:00 to 02:30"},
		{"a time that is skipped", "America/New_York", "30 2 * * *", "1h", "2026-03-08T05:00:00Z",
			"1h, 2026-03-08 02:30 does not exist, it opens at 03:30 EDT"},
		{"a time that comes twice", "America/New_York", "30 1 * * *", "2h", "2026-11-01T04:00:00Z",
			"1h, 2026-11-01 01:30 comes twice, it opens at the first, 01:30 EDT, clocks go back 02:00 to 01:00"},
		{"closes as the clocks change", "America/New_York", "30 1 * * *", "30m", "2026-11-01T04:00:00Z",
			"-30m, 2026-11-01 01:30 comes twice, it opens at the first, 01:30 EDT, clocks go back 02:00 to 01:00"},
		{"a day that is skipped", "Pacific/Apia", "0 22 * * 4", "6h", "2011-12-30T00:00:00Z",
			"30h, clocks go forward 2011-12-30 00:00 to 2011-12-31 00:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Calendar{Allows: []Window{build(t, "w", test.zone, test.schedule, test.duration)}}
			o := c.Openings(at(t, test.from), at(t, test.from).Add(day))[0]
			said := []string{FormatDuration(o.OnTheClock())}
			if o.Shift != nil {
				said = append(said, o.Shift.String())
			}
			for _, change := range o.Changes {
				said = append(said, change.String())
			}
			if got := strings.Join(said, ", "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOpeningsNameWindowsAndFreezes(t *testing.T) {
	c := Calendar{
		Allows: []Window{
			build(t, "early", "UTC", "0 6 * * *", "2h"), build(t, "nights", "UTC", "0 22 * * *", "6h"), build(t, "late", "UTC", "0 3 * * *", "3h"),
		},
	}
	freeze, err := OneOff("deploy", at(t, "2026-01-17T05:00:00Z"), at(t, "2026-01-18T23:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	c.Freezes = []Freeze{{Window: freeze}}
	var got []string
	from, to := at(t, "2026-01-16T12:00:00Z"), at(t, "2026-01-19T12:00:00Z")
	for _, o := range c.Openings(from, to) {
		got = append(got, fmt.Sprintf("%s to %s %v %q %q", o.Start.Format("02T15"), o.End.Format("02T15"), o.Windows, o.FrozenBefore, o.FrozenAfter))
	}
	for _, o := range c.Covered(from, to) {
		got = append(got, fmt.Sprintf("%s to %s covered by %s", o.Start.Format("02T15"), o.End.Format("02T15"), o.FrozenBefore))
	}
	want := []string{
		`16T22 to 17T05 [nights late] "" "deploy"`,
		`18T23 to 19T08 [early nights late] "deploy" ""`,
		"17T22 to 18T08 covered by deploy",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range freeze.Spans(from, to) {
		if !s.Start.Equal(at(t, "2026-01-17T05:00:00Z")) || !s.End.Equal(at(t, "2026-01-18T23:00:00Z")) {
			t.Errorf("the freeze is %v", s)
		}
	}
}
