// SPDX-License-Identifier: Apache-2.0

package window

import (
	"encoding/json"
	"os"
	"testing"
	"time"
	_ "time/tzdata" // zones must not depend on the machine
)

// caseFile is testdata/windows.json: answers that follow from the rules alone.
type caseFile struct {
	Rows       []caseRow
	Precedence struct {
		TimeZone string
		Windows  map[string]struct{ Schedule, Duration string }
		Freeze   struct{ Start, End time.Time }
		Estimate string
		Rows     []precedenceRow
	}
}

type caseRow struct {
	ID, TimeZone, Schedule, Duration string
	At                               time.Time
	Open                             bool
	Start, Close                     time.Time
}

type precedenceRow struct {
	ID                       string
	At                       time.Time
	Open, Frozen, MayStart   bool
	EffectiveClose, NextOpen time.Time
}

func readCases(t *testing.T) caseFile {
	t.Helper()
	data, err := os.ReadFile("testdata/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	var f caseFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCases checks every row: those that Recurring must refuse are the ones
// that never fire or never close.
func TestCases(t *testing.T) {
	refused := map[string]string{
		"10": `window w: schedule: "0 0 30 2 *" never fires: no such date comes in five years`,
		"11": "window w: duration: 36h reaches the next opening every time, so it never closes: shorten it; any time is windows: [always]",
	}
	rows := readCases(t).Rows
	if len(rows) < 35 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			w, err := Recurring(RecurringSpec{Name: "w", TimeZone: row.TimeZone, Schedule: row.Schedule, Duration: row.Duration})
			if want, ok := refused[row.ID]; ok {
				if err == nil || err.Error() != want {
					t.Fatalf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := Calendar{Allows: []Window{w}}.At(row.At).Any()
			if s.Open != row.Open || !s.Close.Equal(row.Close) {
				t.Errorf("open %v until %v, want %v until %v (%s)", s.Open, s.Close, row.Open, row.Close, s.Explain())
			}
			if got := earliestLive(w, row.At); !got.Equal(row.Start) {
				t.Errorf("earliest live opening %v, want %v", got, row.Start)
			}
			if s.Open && s.Opened.After(row.Start) {
				t.Errorf("opened %v, after %v", s.Opened, row.Start)
			}
		})
	}
}

// earliestLive is the earliest opening whose own duration has not passed.
func earliestLive(w Window, now time.Time) time.Time {
	for _, at := range w.Starts(now.Add(-w.Length()), 1) {
		if at.Add(w.Length()).Equal(now) { // just closed
			at = w.Starts(at.Add(1), 1)[0]
		}
		if !at.After(now) {
			return at
		}
	}
	return time.Time{}
}

func TestPrecedence(t *testing.T) {
	p := readCases(t).Precedence
	var c Calendar
	for _, name := range []string{"A", "B"} {
		w, err := Recurring(RecurringSpec{Name: name, TimeZone: p.TimeZone, Schedule: p.Windows[name].Schedule, Duration: p.Windows[name].Duration})
		if err != nil {
			t.Fatal(err)
		}
		c.Allows = append(c.Allows, w)
	}
	freeze, err := OneOff("F", p.Freeze.Start, p.Freeze.End)
	if err != nil {
		t.Fatal(err)
	}
	c.Freezes = []Freeze{{Window: freeze}}
	estimate, err := time.ParseDuration(p.Estimate)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range p.Rows {
		t.Run(row.ID, func(t *testing.T) {
			s := c.At(row.At).Any()
			if s.Open != row.Open || s.Frozen != row.Frozen || !s.Close.Equal(row.EffectiveClose) {
				t.Errorf("got open %v frozen %v close %v, want %+v", s.Open, s.Frozen, s.Close, row)
			}
			if mayStart := s.Open && !row.At.Add(estimate).After(s.Close); mayStart != row.MayStart {
				t.Errorf("may start %v, want %v", mayStart, row.MayStart)
			}
			if !row.NextOpen.IsZero() && !s.NextOpen.Equal(row.NextOpen) {
				t.Errorf("next open %v, want %v", s.NextOpen, row.NextOpen)
			}
		})
	}
}
