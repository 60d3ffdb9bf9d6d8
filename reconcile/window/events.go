// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// EventsSpec is a calendar file as people write it. Every field is required.
type EventsSpec struct {
	Name string
	// TimeZone is an IANA name: where days begin and end, and what times
	// without a zone mean.
	TimeZone string
	// ICS is the text of an iCalendar file (RFC 5545).
	ICS string
}

// maxFaults of a calendar are told at once.
const maxFaults = 10

// Events compiles a window that is open during the events of a calendar. The
// error is a *SpecError, with the field "calendar" for the text.
func Events(spec EventsSpec) (Window, error) {
	var faults []FieldError
	loc, err := parseZone(spec.TimeZone)
	if err != nil {
		faults = append(faults, FieldError{"timeZone", strings.Map(printable, err.Error())})
		loc = time.UTC // to tell what is wrong with the events too
	}
	list, errs := readICS(spec.ICS, loc)
	var e *events
	if len(errs) == 0 {
		e, err = newEvents(list, loc)
		if err != nil {
			errs = append(errs, err)
		}
	}
	for i, err := range errs {
		if i == maxFaults {
			faults = append(faults, FieldError{"calendar", fmt.Sprintf("and %d more", len(errs)-i)})
			break
		}
		faults = append(faults, FieldError{"calendar", strings.Map(printable, err.Error())})
	}
	if len(faults) > 0 {
		return Window{Name: spec.Name}, &SpecError{Name: spec.Name, Fields: faults}
	}
	return Window{Name: spec.Name, when: e}, nil
}

// printable replaces what would break a line: files hold anything.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// events is a window that is open during each of many events. All of it but the
// memo is fixed when it is built.
type events struct {
	list    []event
	loc     *time.Location
	spans   []occurrence // of the events that end, by start
	fixed   []occurrence // spans, merged
	endless []event      // those with a rule
	longest struct{ span, endless time.Duration }
	text    string
	memo    memo
}

func newEvents(list []event, loc *time.Location) (*events, error) {
	e := &events{list: grouped(list), loc: loc}
	var all []upcoming
	for i := range e.list {
		ev := &e.list[i]
		for _, at := range ev.starts {
			all = append(all, upcoming{at, ev})
		}
		e.longest.span = max(e.longest.span, ev.length.atMost())
		if ev.rule != nil {
			e.endless = append(e.endless, *ev)
			e.longest.endless = max(e.longest.endless, ev.length.atMost())
		}
	}
	e.spans = happen(all)
	if len(e.spans)+len(e.endless) == 0 {
		return nil, errNoEvent
	}
	e.fixed = merged(e.spans)
	e.text = writeICS(e.list)
	if len(e.text) > maxNormal {
		return nil, fmt.Errorf("holds %d bytes of dates and names, at most %d are kept: drop the events that are over", len(e.text), maxNormal)
	}
	return e, e.ends()
}

// ends refuses events that repeat for ever and leave no gap.
func (e *events) ends() error {
	if len(e.endless) == 0 {
		return nil
	}
	from := slices.MaxFunc(e.endless, func(a, b event) int { return a.first.Compare(b.first) }).first
	for _, r := range merged(e.repeated(from, from.AddDate(judgedYears, 0, 0))) {
		if r.end.Sub(r.start) > 366*day {
			return fmt.Errorf("its repeating events leave no gap for more than a year: %s would never end", r.summary)
		}
	}
	return nil
}

func (e *events) zone() *time.Location  { return e.loc }
func (e *events) length() time.Duration { return e.longest.span - slack }

func (e *events) String() string {
	if len(e.list) == 1 {
		return "the dates of 1 event " + e.loc.String()
	}
	return fmt.Sprintf("the dates of %d events %s", len(e.list), e.loc)
}

// ICS is the calendar of a window that Events built, without what does not
// matter: Events reads the same window from it. Empty for other windows.
func (w Window) ICS() string {
	if e, ok := w.when.(*events); ok {
		return e.text
	}
	return ""
}

// LastEnd is when the last event of a calendar ends; zero when one repeats for
// ever, and for other windows.
func (w Window) LastEnd() time.Time {
	e, ok := w.when.(*events)
	if !ok || len(e.endless) > 0 {
		return time.Time{}
	}
	return e.fixed[len(e.fixed)-1].end.In(e.loc)
}

// Event names the event of a calendar that is in force at t; empty when none
// is, and for other windows.
func (w Window) Event(t time.Time) string {
	if e, ok := w.when.(*events); ok {
		return e.summaryAt(t)
	}
	return ""
}
