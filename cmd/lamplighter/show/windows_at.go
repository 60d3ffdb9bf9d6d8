// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// Instant is what a policy's calendar says at one instant.
type Instant struct {
	At     string `json:"at"`
	Policy string `json:"policy,omitempty"`
	State  string `json:"state"` // open, shut or frozen
	// By is the window or freeze that decides.
	By string `json:"by,omitempty"`
	// Opened is when the windows that are open, merged, began.
	Opened string `json:"opened,omitempty"`
	Until  string `json:"until,omitempty"`
	// LastStart is the last instant at which a visit that takes the policy's
	// visitDuration still ends before the window closes.
	LastStart string `json:"lastStart,omitempty"`
	Opens     string `json:"nextOpen,omitempty"`
	Why       string `json:"why"`
}

// Instants are calendars at instants.
type Instants struct {
	Instants []Instant `json:"instants"`
}

// NewInstants says what each policy's calendar is at each instant.
func NewInstants(set policy.Set, instants []time.Time) Instants {
	out := Instants{Instants: []Instant{}}
	for _, at := range instants {
		for _, c := range calendars(set) {
			out.Instants = append(out.Instants, newInstant(c, at))
		}
	}
	return out
}

func newInstant(c calendar, at time.Time) Instant {
	s := c.At(at).Any()
	i := Instant{At: at.Format(time.RFC3339Nano), Policy: c.policy, State: stateWord(s), By: s.By, Why: s.Explain()}
	local := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return Time(t.In(c.zone()))
	}
	i.Opened, i.Until, i.Opens = local(s.Opened), local(s.ValidUntil), local(s.NextOpen)
	if s.Close.IsZero() || c.visit == 0 {
		return i
	}
	last := s.Close.Add(-c.visit)
	i.LastStart = local(last)
	if at.After(last) {
		i.Why += fmt.Sprintf("; too late to start a visit of %s", window.FormatDuration(c.visit))
	}
	return i
}

// WriteInstants writes instants as a table.
func WriteInstants(w io.Writer, instants Instants) error {
	if len(instants.Instants) == 0 {
		_, err := fmt.Fprintln(w, "there is no window and no policy")
		return err
	}
	var rows [][]any
	for _, i := range instants.Instants {
		rows = append(rows, []any{i.At, dash(i.Policy), i.State, dash(i.Until), oneLine(i.Why)})
	}
	return table(w, []any{"AT", "POLICY", "STATE", "UNTIL", "WHY"}, rows)
}

// oneLine is a text that may hold what people wrote, fit for a table.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

func stateWord(s window.State) string {
	switch {
	case s.Open:
		return "open"
	case s.Frozen:
		return "frozen"
	default:
		return "shut"
	}
}

// windowWords is a window's state in the width of a table cell.
func windowWords(s window.State) string {
	word := stateWord(s)
	switch {
	case s.Open && !s.Close.IsZero():
		return fmt.Sprintf("%s until %s", word, Time(s.Close))
	case !s.Open && !s.NextOpen.IsZero():
		return fmt.Sprintf("%s, opens %s", word, Time(s.NextOpen))
	default:
		return word
	}
}
