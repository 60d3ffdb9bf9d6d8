// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ics "github.com/arran4/golang-ical"
	"pgregory.net/rapid"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/policy"
)

const icsFleet = `
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: nights}
spec: {timeZone: Europe/Berlin, schedule: "0 22 * * *", duration: 6h}
---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: easter}
spec: {timeZone: Europe/Berlin, schedule: "0 0 29 3 *", duration: 24h, reason: "CHG-7, see \\\\wiki; ask\nthe Änderungsmanagement of the whole company, which answers by mail and on the phone, ☎ 4711"}
---
apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: exporters}
spec: {daemonSets: [{namespace: agents, name: exporter}], windows: [nights]}
`

// TestCalendarHoldsTheOpenings reads a calendar with another library than the
// one that writes it, and compares its events with the openings and freezes.
func TestCalendarHoldsTheOpenings(t *testing.T) {
	from := time.Date(2027, 3, 26, 23, 30, 0, 0, time.UTC)
	openings := show.NewOpenings(policies(t, icsFleet), from, from.Add(96*time.Hour))
	text := calendarText(t, openings, from)
	var want []string
	for _, o := range openings.Openings {
		want = append(want, "exporters: nights OPAQUE "+o.OpensUTC+" "+o.ClosesUTC)
	}
	want = append(want, "freeze easter: CHG-7, see \\\\wiki; ask TRANSPARENT 2027-03-28T22:00:00Z 2027-03-29T22:00:00Z")
	var got []string
	events := parseCalendar(t, text).Events()
	for _, e := range events {
		start, err := e.GetStartAt()
		if err != nil {
			t.Fatal(err)
		}
		end, err := e.GetEndAt()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{
			textOf(e, ics.ComponentPropertySummary), textOf(e, ics.ComponentPropertyTransp), show.Time(start.UTC()), show.Time(end.UTC()),
		}, " "))
		if stamp, err := e.GetDtStampTime(); err != nil || !stamp.Equal(from) {
			t.Errorf("DTSTAMP %v (%v), want %v", stamp, err, from)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(openings.Openings) != 5 || want[0] != "exporters: nights OPAQUE 2027-03-26T21:00:00Z 2027-03-27T03:00:00Z" {
		t.Errorf("the first opening is under way and begins before the span; got %v", want)
	}
	for part, event := range map[string]*ics.VEvent{
		"Clocks go forward 02:00 to 03:00.\n7h on the clock.":                               events[1],
		"Until freeze easter.":                                                              events[2],
		"Reason: CHG-7, see \\\\wiki; ask\nthe Änderungsmanagement of the whole company, w": events[len(events)-1],
	} {
		if said := textOf(event, ics.ComponentPropertyDescription); !strings.Contains(said, part) {
			t.Errorf("%q is not in %q", part, said)
		}
	}
}

// TestCalendarUIDsAreStable: a later calendar has the same UIDs for what both
// hold, and another fleet has others.
func TestCalendarUIDsAreStable(t *testing.T) {
	from := time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC)
	set := policies(t, icsFleet)
	always := policies(t, strings.Replace(icsFleet[strings.LastIndex(icsFleet, "---\n")+4:], "windows: [nights]", "windows: [always]", 1))
	uids := func(set policy.Set, fleet string, from time.Time) []string {
		var b bytes.Buffer
		if err := show.WriteICS(&b, show.NewOpenings(set, from, from.Add(96*time.Hour)), show.ICSOptions{Fleet: fleet, Stamp: from}); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, e := range parseCalendar(t, b.String()).Events() {
			list = append(list, e.Id())
		}
		return list
	}
	first, later, other := uids(set, "prod", from), uids(set, "prod", from.Add(26*time.Hour)), uids(set, "test", from)
	if before, after := uids(always, "prod", from), uids(always, "prod", from.Add(time.Hour)); before[0] != after[0] {
		t.Errorf("what is always open was %s and is %s", before[0], after[0])
	}
	if len(slices.Compact(slices.Sorted(slices.Values(first)))) != len(first) {
		t.Errorf("two events have one UID: %v", first)
	}
	if first[1] != later[0] {
		t.Errorf("the second night was %s and is %s", first[1], later[0])
	}
	for _, uid := range other {
		if slices.Contains(first, uid) {
			t.Errorf("%s is an event of two fleets", uid)
		}
	}
}

func TestCalendarWithoutEventsIsOne(t *testing.T) {
	from := time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC)
	text := calendarText(t, show.NewOpenings(policies(t, icsFleet), from, from.Add(time.Hour)), from)
	cal := parseCalendar(t, text)
	if len(cal.Events()) != 0 || len(cal.Components) != 1 || !strings.Contains(text, "BEGIN:VFREEBUSY\r\n") {
		t.Errorf("want one VFREEBUSY:\n%s", text)
	}
}

// TestCalendarOfAnyReason: whatever a reason holds, the calendar is well formed
// and gives it back.
func TestCalendarOfAnyReason(t *testing.T) {
	from := time.Date(2027, 12, 20, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		reason := rapid.String().Draw(rt, "reason")
		openings := show.Openings{Freezes: []show.FreezeSpan{{Freeze: "f", Reason: reason, Scope: "Upgrades"}}}
		text := calendarText(t, openings, from)
		said := textOf(parseCalendar(t, text).Events()[0], ics.ComponentPropertyDescription)
		want := strings.Map(func(r rune) rune {
			switch {
			case r == '\r':
				return -1
			case r < ' ' && r != '\n' && r != '\t', 0x7f <= r && r < 0xa0:
				return '?'
			}
			return r
		}, reason)
		if got := strings.TrimPrefix(said, "Scope: Upgrades."); strings.TrimSpace(got) != strings.TrimSpace("Reason: "+want) && reason != "" {
			rt.Fatalf("got %q, want %q", got, want)
		}
	})
}

// calendarText writes a calendar and checks the form that every one has: lines
// end in CRLF, none is longer than 75 octets, no character is split.
func calendarText(t *testing.T, o show.Openings, stamp time.Time) string {
	t.Helper()
	var b bytes.Buffer
	if err := show.WriteICS(&b, o, show.ICSOptions{Fleet: "clusters/prod", Stamp: stamp}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "BEGIN:VCALENDAR\r\n") || !strings.HasSuffix(text, "END:VCALENDAR\r\n") {
		t.Errorf("not a calendar:\n%s", text)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if len(line) > 75 || strings.ContainsAny(line, "\r\n") || !utf8.ValidString(line) {
			t.Errorf("%d octets: %q", len(line), line)
		}
	}
	return text
}

func parseCalendar(t *testing.T, text string) *ics.Calendar {
	t.Helper()
	cal, err := ics.ParseCalendar(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cal
}

func textOf(e *ics.VEvent, property ics.ComponentProperty) string {
	if p := e.GetProperty(property); p != nil {
		return p.Value
	}
	return ""
}
