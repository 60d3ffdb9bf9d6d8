// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// Opening is one span in which a policy may visit nodes.
type Opening struct {
	// Policy is empty for a window that no policy lists.
	Policy string `json:"policy,omitempty"`
	// Window is the one that opens it, and Windows all that are open in it.
	Window  string   `json:"window,omitempty"`
	Windows []string `json:"windows,omitempty"`
	// Opens is its real start, before the span that was asked for if it is under
	// way then.
	Opens string `json:"opens"`
	// Closes is empty when nothing closes it.
	Closes string `json:"closes,omitempty"`
	// Zone is what the clocks of the window show: "CET", or "CET to CEST".
	Zone      string `json:"zone"`
	OpensUTC  string `json:"opensUTC"`
	ClosesUTC string `json:"closesUTC,omitempty"`
	// Length is elapsed time.
	Length string `json:"length,omitempty"`
	// FrozenBefore and FrozenAfter are the freezes that cut it at its start and
	// at its end.
	FrozenBefore string `json:"frozenBefore,omitempty"`
	FrozenAfter  string `json:"frozenAfter,omitempty"`
	// Notes are what is unusual about it, such as a change of the clocks.
	Notes []string `json:"notes,omitempty"`

	start, end time.Time
}

// Frozen is openings that freezes cover whole: they do not happen.
type Frozen struct {
	Policy string `json:"policy,omitempty"`
	// Window is set for a window that no policy lists.
	Window   string `json:"window,omitempty"`
	Freeze   string `json:"freeze"`
	Reason   string `json:"reason,omitempty"`
	Openings int    `json:"openings"`
}

// FreezeSpan is one span in which a freeze is in force.
type FreezeSpan struct {
	Freeze string `json:"freeze"`
	// Event is its name in a calendar, the first of several that touch.
	Event  string `json:"event,omitempty"`
	Starts string `json:"starts"`
	Ends   string `json:"ends"`
	Reason string `json:"reason,omitempty"`
	Scope  string `json:"scope"`
	// Policies it is limited to; none is all.
	Policies []string `json:"policies,omitempty"`

	span window.Span
}

// calendar is what opens and shuts together.
type calendar struct {
	policy string
	// visit is how long a visit is expected to take; zero when no policy says.
	visit time.Duration
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
		out = append(out, calendar{p.Name, p.VisitDuration, p.Calendar})
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
	From     string       `json:"from"`
	To       string       `json:"to"`
	Openings []Opening    `json:"openings"`
	Frozen   []Frozen     `json:"frozen,omitempty"`
	Freezes  []FreezeSpan `json:"freezes,omitempty"`

	from, to time.Time
}

// NewOpenings lists when the policies' windows are open in [from, to), freezes
// cut out, policy by policy.
func NewOpenings(set policy.Set, from, to time.Time) Openings {
	from, to = from.Truncate(time.Second), to.Truncate(time.Second)
	out := Openings{From: Time(from), To: Time(to), Openings: []Opening{}, from: from, to: to}
	reasons := map[string]string{}
	for _, f := range set.Freezes {
		reasons[f.Name] = f.Freeze.Reason
		for _, s := range f.Freeze.Spans(from, to) {
			out.Freezes = append(out.Freezes, FreezeSpan{
				Freeze: f.Name, Event: f.Freeze.Event(s.Start), Starts: Time(s.Start), Ends: Time(s.End), Reason: f.Freeze.Reason,
				Scope: string(f.Scope), Policies: f.Policies, span: s,
			})
		}
	}
	for _, c := range calendars(set) {
		for _, o := range c.Openings(from, to) {
			out.Openings = append(out.Openings, newOpening(c, o, from))
		}
		for _, o := range c.Covered(from, to) {
			f := Frozen{Policy: c.policy, Freeze: o.FrozenBefore, Reason: reasons[o.FrozenBefore]}
			if c.policy == "" {
				f.Window = o.By
			}
			out.Frozen = countFrozen(out.Frozen, f)
		}
	}
	return out
}

func newOpening(c calendar, o window.Opening, from time.Time) Opening {
	out := Opening{
		Policy: c.policy, Window: o.By, Windows: o.Windows, Opens: Time(o.Start), OpensUTC: Time(o.Start.UTC()), Zone: zoneWord(o.Start),
		FrozenBefore: o.FrozenBefore, FrozenAfter: o.FrozenAfter, Notes: append(notes(o, from), selections(c, o)...), start: o.Start, end: o.End,
	}
	if o.End.IsZero() {
		return out
	}
	out.Closes, out.ClosesUTC, out.Length = Time(o.End), Time(o.End.UTC()), window.FormatDuration(o.End.Sub(o.Start))
	if last := zoneWord(o.End); last != out.Zone {
		out.Zone += " to " + last
	}
	return out
}

// zoneWord is what people call the offset in force: its abbreviation, or
// "UTC+05:45" where there is none.
func zoneWord(t time.Time) string {
	if name := t.Format("MST"); !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return name
	}
	return "UTC" + t.Format("-07:00")
}

// underWay is said of an opening that began before the span asked for.
const underWay = "under way"

// notes are what is unusual about an opening.
func notes(o window.Opening, from time.Time) []string {
	var said []string
	if o.By == "" {
		said = append(said, "always open")
	}
	if o.Start.Before(from) {
		said = append(said, underWay)
	}
	if len(o.Windows) > 1 {
		said = append(said, "with "+strings.Join(slices.DeleteFunc(slices.Clone(o.Windows), func(w string) bool { return w == o.By }), ", "))
	}
	if o.FrozenBefore != "" {
		said = append(said, "after freeze "+o.FrozenBefore)
	}
	if o.FrozenAfter != "" {
		said = append(said, "until freeze "+o.FrozenAfter)
	}
	if o.Shift != nil {
		said = append(said, o.Shift.String())
	}
	for _, c := range o.Changes {
		note := c.String()
		if c.At.Equal(o.End) {
			note += " as it closes"
		}
		said = append(said, note)
	}
	if clock := o.OnTheClock(); clock > 0 && clock != o.End.Sub(o.Start) {
		said = append(said, window.FormatDuration(clock)+" on the clock")
	}
	return said
}

// selections are which nodes the windows of an opening are for, if not for all.
func selections(c calendar, o window.Opening) []string {
	var said []string
	for i := range c.Allows {
		if w := &c.Allows[i]; w.Selector != nil && slices.Contains(o.Windows, w.Name) {
			said = append(said, fmt.Sprintf("%s is for nodes %s", w.Name, w.Selector))
		}
	}
	return said
}

func countFrozen(list []Frozen, f Frozen) []Frozen {
	for i := range list {
		if list[i].Policy == f.Policy && list[i].Window == f.Window && list[i].Freeze == f.Freeze {
			list[i].Openings++
			return list
		}
	}
	f.Openings = 1
	return append(list, f)
}

// WriteOpenings writes openings as a table, and below it the freezes and what
// they leave out.
func WriteOpenings(w io.Writer, o Openings) error {
	if err := writeOpenings(w, o); err != nil {
		return err
	}
	var b strings.Builder
	for i, f := range o.Freezes {
		const most = 20
		if i == most {
			fmt.Fprintf(&b, "and %s more\n", countOf(len(o.Freezes)-most, "freeze"))
			break
		}
		fmt.Fprintf(&b, "freeze %s: %s to %s", f.Freeze, f.Starts, f.Ends)
		for _, about := range []string{f.Event, firstLine(f.Reason)} {
			if about != "" {
				b.WriteString(", " + oneLine(about))
			}
		}
		b.WriteString("\n")
	}
	for _, f := range o.Frozen {
		of := "policy " + f.Policy
		if f.Window != "" {
			of = "window " + f.Window
		}
		fmt.Fprintf(&b, "freeze %s leaves out %s of %s\n", f.Freeze, countOf(f.Openings, "opening"), of)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s", b.String())
	return err
}

func writeOpenings(w io.Writer, o Openings) error {
	if len(o.Openings) == 0 {
		_, err := fmt.Fprintf(w, "no window opens from %s to %s\n", o.From, o.To)
		return err
	}
	var rows [][]any
	for _, o := range o.Openings {
		rows = append(rows, []any{
			dash(o.Policy), dash(o.Window), o.Opens, dash(o.Closes), o.Zone, o.OpensUTC, dash(o.ClosesUTC), dash(o.Length), dash(strings.Join(o.Notes, "; ")),
		})
	}
	return table(w, []any{"POLICY", "WINDOW", "OPENS", "CLOSES", "ZONE", "OPENS-UTC", "CLOSES-UTC", "LENGTH", "NOTES"}, rows)
}

func dash(s string) string {
	if s == "" {
		return none
	}
	return s
}
