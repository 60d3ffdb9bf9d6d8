// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-ical"
)

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
