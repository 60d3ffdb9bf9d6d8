// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const page = "../../docs/concepts/windows.md"

// tables of the page whose header starts with these cells.
func tables(t *testing.T, header string) [][]string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	inside := false
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(strings.Join(cells, " "), header):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			rows = append(rows, cells)
		}
	}
	return rows
}

// TestPageIsTrue asks every example of the page.
func TestPageIsTrue(t *testing.T) {
	rows := tables(t, "zone schedule duration at answer")
	if len(rows) < 15 {
		t.Fatalf("only %d examples", len(rows))
	}
	for _, row := range rows {
		w := build(t, "w", row[0], row[1], row[2])
		s := Calendar{Allows: []Window{w}}.At(at(t, row[3])).Any()
		local := func(t time.Time) string { return t.In(w.Location()).Format(time.RFC3339) }
		got := fmt.Sprintf("shut, opens %s", local(s.NextOpen))
		if s.Open {
			got = fmt.Sprintf("open from %s to %s", local(s.Opened), local(s.Close))
		}
		if got != row[4] {
			t.Errorf("%s at %s: %s, not %s", w, row[3], got, row[4])
		}
	}
}

// TestPageCalendar asks the page's calendar when its freeze is in force.
func TestPageCalendar(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, ics, _ := strings.Cut(string(data), "```ics\n")
	ics, _, _ = strings.Cut(ics, "```")
	_, zone, _ := strings.Cut(string(data), "spec: {timeZone: ")
	zone, _, _ = strings.Cut(zone, ", calendar: holidays.ics}")
	w, err := Events(EventsSpec{Name: "holidays", TimeZone: zone, ICS: ics})
	if err != nil {
		t.Fatal(err)
	}
	rows := tables(t, "at freeze")
	if len(rows) < 5 {
		t.Fatalf("only %d examples", len(rows))
	}
	local := func(t time.Time) string { return t.In(w.Location()).Format(time.RFC3339) }
	for _, row := range rows {
		now := at(t, row[0])
		p := w.phase(now)
		got := "none, next " + local(p.next)
		if p.open {
			got = fmt.Sprintf("%s, from %s to %s", w.Event(now), local(p.from), local(p.end))
		}
		if got != row[1] {
			t.Errorf("at %s: %s, not %s", row[0], got, row[1])
		}
		if s := (Calendar{Always: true, Freezes: []Freeze{{Window: w}}}).At(now).Any(); s.Open == p.open || s.Frozen != p.open {
			t.Errorf("at %s: %s", row[0], s.Explain())
		}
	}
}

// TestPageRefusals: what the page says is refused is.
func TestPageRefusals(t *testing.T) {
	good := RecurringSpec{Name: "w", TimeZone: "UTC", Schedule: "0 22 * * *", Duration: "6h"}
	if _, err := Recurring(good); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, row := range tables(t, "written why it is refused write") {
		written, _, _ := strings.Cut(row[0], "`")
		spec := good
		switch {
		case strings.HasPrefix(written, "timeZone: "):
			spec.TimeZone = strings.TrimPrefix(written, "timeZone: ")
		case strings.HasPrefix(written, "duration: "):
			spec.Duration = strings.TrimPrefix(written, "duration: ")
		case strings.HasPrefix(written, "@"), strings.Count(written, " ") == 4 && strings.Contains(written, "*"):
			spec.Schedule = written
		case written == "FRI-MON", written == "1,,5":
			spec.Schedule = "0 22 * * " + written
		case written == "weekday 7":
			spec.Schedule = "0 22 * * 7"
		default:
			continue
		}
		refused++
		if _, err := Recurring(spec); err == nil {
			t.Errorf("%s is taken", row[0])
		}
	}
	if refused < 11 {
		t.Errorf("only %d of the rows are checked", refused)
	}
}
