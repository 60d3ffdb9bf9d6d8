// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/emersion/go-ical"
)

const (
	// maxICS is how long the text of a calendar may be.
	maxICS = 1 << 20
	// maxEvents in one calendar.
	maxEvents = 2000
	// maxPropertyHead bounds what stands before the value of a line.
	maxPropertyHead = 1000
	// maxSummary is how much of a name is kept, in bytes.
	maxSummary = 100
	// maxLength of one event; a shorter one that repeats for ever has to end
	// before it comes again.
	maxLength = 10 * 366 * day
)

var errNoEvent = errors.New("has no event: a calendar without one would freeze nothing")

// readICS reads the events of a calendar. Times without a zone, and days, are
// those of zone. It lists everything that is wrong.
func readICS(text string, zone *time.Location) ([]event, []error) {
	components, err := decodeICS(text)
	if err != nil {
		return nil, []error{err}
	}
	r := &icsReader{zone: zone, rules: ruleReader{byText: map[string]*yearly{}}}
	for _, c := range components {
		for _, child := range c.Children {
			if child.Name == ical.CompEvent {
				r.add(child)
			}
		}
	}
	return r.result()
}

// decodeICS reads the calendars of a file. What the decoder behind it cannot
// stand is refused before.
func decodeICS(text string) (list []*ical.Component, err error) {
	defer func() {
		if p := recover(); p != nil {
			list, err = nil, fmt.Errorf("is not an iCalendar file: %v", p)
		}
	}()
	text = strings.TrimPrefix(text, "\ufeff")
	switch {
	case len(text) > maxICS:
		return nil, fmt.Errorf("is larger than %d KiB", maxICS>>10)
	case strings.TrimSpace(text) == "":
		return nil, errNoEvent
	}
	if err := checkLines(text); err != nil {
		return nil, err
	}
	for d := ical.NewDecoder(strings.NewReader(text)); ; {
		c, err := d.Decode()
		switch {
		case err == nil:
			list = append(list, c.Component)
		case errors.Is(err, io.EOF) && len(list) == strings.Count(strings.ToUpper(text), "BEGIN:VCALENDAR"):
			return list, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("is not a whole iCalendar file: it ends before END:VCALENDAR")
		default:
			return nil, fmt.Errorf("is not an iCalendar file: %s", clip(strings.TrimPrefix(err.Error(), "ical: ")))
		}
	}
}

// checkLines refuses lines that are not a name, parameters, a colon and a value.
func checkLines(text string) error {
	head, quoted, valued, begun := 0, false, true, 0
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if n > 1 && line != "" && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		} else {
			if !valued {
				return noColon(begun)
			}
			head, quoted, valued, begun = 0, false, line == "", n
		}
		for i := 0; i < len(line) && !valued; i++ {
			quoted = quoted != (line[i] == '"')
			valued = line[i] == ':' && !quoted
			if head++; head > maxPropertyHead {
				return fmt.Errorf("line %d is not one of an iCalendar file: it has no value", begun)
			}
		}
	}
	if !valued {
		return noColon(begun)
	}
	return nil
}

func noColon(line int) error {
	return fmt.Errorf("line %d is not one of an iCalendar file: it has no colon", line)
}

// icsReader collects the events of a calendar.
type icsReader struct {
	zone        *time.Location
	rules       ruleReader
	drafts      []draft
	errs        []error
	count       int
	occurrences int
}

// draft is an event while the others that it may change are not read.
type draft struct {
	event
	name      string // in messages
	uid       string
	cancelled bool
	changes   *stamp // the occurrence of another event that this one replaces
}

func (r *icsReader) add(c *ical.Component) {
	if r.count++; r.count > maxEvents {
		if r.count == maxEvents+1 {
			r.errs = append(r.errs, fmt.Errorf("has more than %d events", maxEvents))
		}
		return
	}
	d := draft{name: eventName(c.Props), uid: first(c.Props, ical.PropUID)}
	d.summary = summaryOf(c.Props)
	d.cancelled = strings.EqualFold(first(c.Props, ical.PropStatus), string(ical.EventCancelled))
	if err := r.fill(&d, c.Props); err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", d.name, err))
		return
	}
	r.drafts = append(r.drafts, d)
}

// fill reads the times of an event.
func (r *icsReader) fill(d *draft, p ical.Props) error {
	for _, once := range []string{ical.PropDateTimeStart, ical.PropDateTimeEnd, ical.PropDuration, ical.PropRecurrenceRule, ical.PropRecurrenceID} {
		if len(p[once]) > 1 {
			return fmt.Errorf("has more than one %s", once)
		}
	}
	if len(p["EXRULE"]) > 0 {
		return errors.New("EXRULE is not read: list the dates as EXDATE")
	}
	if id := p.Get(ical.PropRecurrenceID); id != nil {
		if id.Params.Get(ical.ParamRange) != "" {
			return errors.New("RECURRENCE-ID with RANGE is not read: end the first event with UNTIL and write another")
		}
		changes, err := r.stamp(id)
		if err != nil {
			return err
		}
		d.changes = &changes
		if d.cancelled {
			return nil
		}
	}
	if d.cancelled {
		return nil
	}
	start := p.Get(ical.PropDateTimeStart)
	if start == nil {
		return errors.New("has no DTSTART")
	}
	from, err := r.stamp(start)
	if err != nil {
		return err
	}
	d.loc, d.allDay, d.first = from.loc, from.allDay, from.wall
	if d.length, err = r.length(p, from); err != nil {
		return err
	}
	return r.repeat(d, p, from)
}

// repeat reads when else an event happens.
func (r *icsReader) repeat(d *draft, p ical.Props, from stamp) error {
	d.starts = []time.Time{from.wall}
	if prop := p.Get(ical.PropRecurrenceRule); prop != nil {
		if d.changes != nil {
			return errors.New("has both RECURRENCE-ID and RRULE: drop one")
		}
		if err := r.rule(d, prop.Value, from); err != nil {
			return fmt.Errorf("RRULE %w", err)
		}
	}
	more, err := r.stamps(p, ical.PropRecurrenceDates, from)
	if err != nil {
		return err
	}
	for _, s := range more {
		d.starts = append(d.starts, s.on(from.loc))
	}
	slices.SortFunc(d.starts, time.Time.Compare)
	d.starts = slices.Compact(d.starts)
	if r.occurrences += len(d.starts); r.occurrences > maxOccurrences {
		return fmt.Errorf("its dates and those before are more than %d", maxOccurrences)
	}
	except, err := r.stamps(p, ical.PropExceptionDates, from)
	if err != nil {
		return err
	}
	for _, s := range except {
		if !d.without(s) {
			return fmt.Errorf("EXDATE %s is none of its dates", s)
		}
	}
	return nil
}

func (r *icsReader) rule(d *draft, text string, from stamp) error {
	option, err := readRule(text)
	if err != nil {
		return err
	}
	if option.Count == 0 && option.Until.IsZero() {
		if d.length.atMost() > 366*day {
			return errors.New("repeats an event of a year or more for ever")
		}
		d.rule, err = r.rules.repeat(option, from.wall)
		return err
	}
	if !option.Until.IsZero() {
		option.Until = until(text, option.Until, from)
	}
	list, err := r.rules.follow(option, from.wall)
	d.starts = append(d.starts, list...)
	return err
}

// until is UNTIL on the clock of the event. A date holds to its end.
func until(text string, t time.Time, from stamp) time.Time {
	_, value, _ := strings.Cut(strings.ToUpper(text), "UNTIL=")
	value, _, _ = strings.Cut(value, ";")
	switch {
	case strings.HasSuffix(value, "Z"):
		return wallTime(t, from.loc)
	case !strings.Contains(value, "T"):
		return t.Add(day - time.Second)
	}
	return t
}

// without takes one occurrence away; false if there is no such.
func (d *draft) without(s stamp) bool {
	w := s.on(d.loc)
	if s.allDay != d.allDay || slices.Contains(d.except, w) {
		return false
	}
	if i, ok := slices.BinarySearchFunc(d.starts, w, time.Time.Compare); ok {
		d.starts = slices.Delete(d.starts, i, i+1)
		return true
	}
	if d.rule != nil {
		for at := range d.rule.in(w.Year(), d.first) {
			if at.Equal(w) {
				d.except = append(d.except, w)
				return true
			}
		}
	}
	return false
}

// result applies the changes of single occurrences and drops what is cancelled.
func (r *icsReader) result() ([]event, []error) {
	for i := range r.drafts {
		d := &r.drafts[i]
		if d.changes == nil {
			continue
		}
		if err := r.replace(d); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: RECURRENCE-ID %w", d.name, err))
		}
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	var list []event
	for _, d := range r.drafts {
		if !d.cancelled && (len(d.starts) > 0 || d.rule != nil) {
			list = append(list, d.event)
		}
	}
	if len(list) == 0 {
		return nil, []error{errNoEvent}
	}
	return list, nil
}

// replace takes the occurrence that d changes out of its event.
func (r *icsReader) replace(d *draft) error {
	var whole *draft
	for i := range r.drafts {
		other := &r.drafts[i]
		if other.changes != nil || other.uid != d.uid || d.uid == "" {
			continue
		}
		if whole != nil {
			return fmt.Errorf("belongs to two events with UID %s", clip(d.uid))
		}
		whole = other
	}
	switch {
	case whole == nil:
		return errors.New("belongs to no event: there is none with this UID")
	case whole.cancelled:
		return nil
	case !whole.without(*d.changes):
		return fmt.Errorf("%s is none of the dates of its event", d.changes)
	}
	return nil
}

// eventName is how messages call an event.
func eventName(p ical.Props) string {
	name := summaryOf(p)
	if name == "" {
		name = clip(first(p, ical.PropUID))
	}
	if start := first(p, ical.PropDateTimeStart); start != "" {
		return fmt.Sprintf("event %q (%s)", name, clip(start))
	}
	return fmt.Sprintf("event %q", name)
}

// first is the raw value of a property; empty when there is none.
func first(p ical.Props, name string) string {
	if prop := p.Get(name); prop != nil {
		return prop.Value
	}
	return ""
}

// summaryOf is the name of an event, on one line.
func summaryOf(p ical.Props) string {
	prop := p.Get(ical.PropSummary)
	if prop == nil {
		return ""
	}
	text, err := prop.Text()
	if err != nil {
		text = prop.Value
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSummary {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:maxSummary], "")) + "..."
	}
	return text
}
