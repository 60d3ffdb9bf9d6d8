// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// Opening is one span in which a policy may visit nodes.
type Opening struct {
	// Policy is empty for a window that no policy lists.
	Policy string `json:"policy,omitempty"`
	Window string `json:"window,omitempty"`
	Opens  string `json:"opens"`
	// Closes is empty when nothing closes it.
	Closes string `json:"closes,omitempty"`
	Length string `json:"length,omitempty"`
}

// Instant is what a policy's calendar says at one instant.
type Instant struct {
	At     string `json:"at"`
	Policy string `json:"policy,omitempty"`
	State  string `json:"state"` // open, shut or frozen
	Until  string `json:"until,omitempty"`
	Opens  string `json:"nextOpen,omitempty"`
	Why    string `json:"why"`
}

// calendar is what opens and shuts together.
type calendar struct {
	policy string
	window.Calendar
}

// zone is where people read a calendar's times: that of its first window.
func (c calendar) zone() *time.Location {
	if len(c.Allows) == 0 {
		return time.UTC
	}
	return c.Allows[0].Location()
}

// calendars are those of the policies, and one for each window that no policy
// lists, with the freezes that hold for all.
func calendars(set policy.Set) []calendar {
	var (
		out    []calendar
		listed []string
	)
	for _, p := range set.Upgrades {
		out = append(out, calendar{p.Name, p.Calendar})
		listed = append(listed, p.WindowNames...)
	}
	for _, w := range set.Windows {
		if slices.Contains(listed, w.Name) {
			continue
		}
		c := calendar{Calendar: window.Calendar{Allows: []window.Window{w.Window}}}
		for _, f := range set.Freezes {
			if len(f.Policies) == 0 {
				c.Freezes = append(c.Freezes, f.Freeze)
			}
		}
		out = append(out, c)
	}
	return out
}

// Openings are the openings in a span of time.
type Openings struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	Openings []Opening `json:"openings"`
}

// NewOpenings lists when the policies' windows are open in [from, to), freezes
// cut out, policy by policy.
func NewOpenings(set policy.Set, from, to time.Time) Openings {
	out := Openings{From: Time(from.Truncate(time.Second)), To: Time(to.Truncate(time.Second)), Openings: []Opening{}}
	for _, c := range calendars(set) {
		for _, o := range c.Openings(from, to) {
			opening := Opening{Policy: c.policy, Window: o.By, Opens: Time(o.Start)}
			if !o.End.IsZero() {
				opening.Closes, opening.Length = Time(o.End), window.FormatDuration(o.End.Sub(o.Start))
			}
			out.Openings = append(out.Openings, opening)
		}
	}
	return out
}

// WriteOpenings writes openings as a table.
func WriteOpenings(w io.Writer, o Openings) error {
	if len(o.Openings) == 0 {
		_, err := fmt.Fprintf(w, "no window opens from %s to %s\n", o.From, o.To)
		return err
	}
	var rows [][]any
	for _, o := range o.Openings {
		rows = append(rows, []any{dash(o.Policy), dash(o.Window), o.Opens, dash(o.Closes), dash(o.Length)})
	}
	return table(w, []any{"POLICY", "WINDOW", "OPENS", "CLOSES", "LENGTH"}, rows)
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
			s := c.At(at).Any()
			i := Instant{At: Time(at), Policy: c.policy, State: stateWord(s), Why: s.Explain()}
			if !s.ValidUntil.IsZero() {
				i.Until = Time(s.ValidUntil.In(c.zone()))
			}
			if !s.NextOpen.IsZero() {
				i.Opens = Time(s.NextOpen.In(c.zone()))
			}
			out.Instants = append(out.Instants, i)
		}
	}
	return out
}

// WriteInstants writes instants as a table.
func WriteInstants(w io.Writer, instants Instants) error {
	if len(instants.Instants) == 0 {
		_, err := fmt.Fprintln(w, "there is no window and no policy")
		return err
	}
	var rows [][]any
	for _, i := range instants.Instants {
		rows = append(rows, []any{i.At, dash(i.Policy), i.State, dash(i.Until), i.Why})
	}
	return table(w, []any{"AT", "POLICY", "STATE", "UNTIL", "WHY"}, rows)
}

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

func dash(s string) string {
	if s == "" {
		return none
	}
	return s
}
