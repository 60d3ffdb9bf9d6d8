// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/emersion/go-ical"
)

// productID says who wrote a calendar.
const productID = "-//lamplighter.dev//lamplighter windows//EN"

// ICSOptions say how openings become a calendar.
type ICSOptions struct {
	// Fleet tells the events of one cluster from those of another: their UIDs
	// are made of it. It is the path of the kustomize root.
	Fleet string
	// Stamp is when the calendar is written.
	Stamp time.Time
}

// WriteICS writes openings and freezes as an RFC 5545 calendar: an event for
// each, all in UTC. An opening takes time in a calendar; a freeze, which may
// last for weeks and in which nothing happens, does not. An event keeps its UID
// as long as it starts at the same instant, so that importing again moves its
// end. A span without events is a VFREEBUSY that has no busy time: a calendar
// may not be empty.
func WriteICS(w io.Writer, o Openings, opts ICSOptions) error {
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Props.SetText(ical.PropProductID, productID)
	cal.Props.SetText(ical.PropCalendarScale, "GREGORIAN")
	cal.Props.Set(calendarName(opts.Fleet))
	for _, opening := range o.Openings {
		cal.Children = append(cal.Children, openingEvent(opening, o, opts).Component)
	}
	for _, f := range o.Freezes {
		cal.Children = append(cal.Children, freezeEvent(f, opts).Component)
	}
	if len(cal.Children) == 0 {
		free := ical.NewComponent(ical.CompFreeBusy)
		identify(free, opts, "none", o.From, o.To)
		free.Props.SetDateTime(ical.PropDateTimeStart, o.from.UTC())
		free.Props.SetDateTime(ical.PropDateTimeEnd, o.to.UTC())
		cal.Children = append(cal.Children, free)
	}
	return ical.NewEncoder(&folder{w}).Encode(cal)
}

// calendarName is what calendar programs call it. The property is older than
// the rule that an unknown one states its type, and programs expect it bare.
func calendarName(fleet string) *ical.Prop {
	name := "Maintenance windows"
	if fleet != "." {
		name += " of " + fleet
	}
	p := ical.NewProp("X-WR-CALNAME")
	p.SetText(clean(name))
	p.Params.Del(ical.ParamValue)
	return p
}

func openingEvent(o Opening, among Openings, opts ICSOptions) *ical.Event {
	e := ical.NewEvent()
	who, end := o.Policy, o.end
	lines := []string{fmt.Sprintf("Opens %s, closes %s (%s): %s.", o.Opens, o.Closes, o.Zone, o.Length)}
	if end.IsZero() {
		end, lines = among.to, []string{"Nothing closes it."}
	}
	if who == "" {
		who = "no policy"
	}
	what := o.Window
	if what == "" {
		what = "always"
	}
	if len(o.Windows) > 0 {
		lines = append(lines, "Windows: "+strings.Join(o.Windows, ", ")+".")
	}
	for _, note := range o.Notes {
		if note != underWay {
			lines = append(lines, strings.ToUpper(note[:1])+note[1:]+".")
		}
	}
	since := o.OpensUTC
	if o.Window == "" && o.start.Equal(among.from) {
		since = "always" // it starts wherever one looks
	}
	identify(e.Component, opts, "opening", o.Policy, o.Window, since)
	e.Props.SetText(ical.PropSummary, clean(who+": "+what))
	e.Props.SetText(ical.PropDescription, clean(strings.Join(lines, "\n")))
	e.Props.SetText(ical.PropCategories, "MAINTENANCE")
	e.Props.SetText(ical.PropTransparency, "OPAQUE")
	e.Props.SetDateTime(ical.PropDateTimeStart, o.start.UTC())
	e.Props.SetDateTime(ical.PropDateTimeEnd, end.UTC())
	return e
}

func freezeEvent(f FreezeSpan, opts ICSOptions) *ical.Event {
	e := ical.NewEvent()
	lines := []string{fmt.Sprintf("Scope: %s.", f.Scope)}
	if len(f.Policies) > 0 {
		lines = append(lines, "Policies: "+strings.Join(f.Policies, ", ")+".")
	}
	summary := "freeze " + f.Freeze
	if f.Reason != "" {
		lines = append(lines, "Reason: "+f.Reason)
	}
	if why := cmp.Or(f.Event, firstLine(f.Reason)); why != "" {
		summary += ": " + why
	}
	start := f.span.Start.UTC()
	identify(e.Component, opts, "freeze", f.Freeze, Time(start))
	e.Props.SetText(ical.PropSummary, clean(summary))
	e.Props.SetText(ical.PropDescription, clean(strings.Join(lines, "\n")))
	e.Props.SetText(ical.PropCategories, "FREEZE")
	e.Props.SetText(ical.PropTransparency, "TRANSPARENT")
	e.Props.SetDateTime(ical.PropDateTimeStart, start)
	e.Props.SetDateTime(ical.PropDateTimeEnd, f.span.End.UTC())
	return e
}

// identify gives a component the UID that these words always give.
func identify(c *ical.Component, opts ICSOptions, words ...string) {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{opts.Fleet}, words...), "\x00")))
	c.Props.SetText(ical.PropUID, fmt.Sprintf("%x@lamplighter.dev", sum[:16]))
	c.Props.SetDateTime(ical.PropDateTimeStamp, opts.Stamp.UTC())
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// clean leaves only what a text of a calendar may hold.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}

// folder folds the lines of a calendar, whose encoder writes each in one piece:
// none is longer than 75 octets, and no character is split.
type folder struct{ w io.Writer }

func (f *folder) Write(line []byte) (int, error) {
	const most = 75
	text, end := line, []byte(nil)
	if cut, ok := bytes.CutSuffix(line, []byte("\r\n")); ok {
		text, end = cut, line[len(cut):]
	}
	var b bytes.Buffer
	for width := 0; len(text) > 0; {
		_, size := utf8.DecodeRune(text)
		if width+size > most {
			b.WriteString("\r\n ")
			width = 1
		}
		b.Write(text[:size])
		text, width = text[size:], width+size
	}
	b.Write(end)
	if _, err := f.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(line), nil
}
