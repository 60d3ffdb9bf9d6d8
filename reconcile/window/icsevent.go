// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/emersion/go-ical"
)

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
