// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-ical"
)

// The forms of a time in a calendar.
const (
	icsDate = "20060102"
	icsTime = "20060102T150405"
)

// stamp is a time as a calendar writes it: what a clock in a zone shows.
type stamp struct {
	wall   time.Time
	loc    *time.Location
	allDay bool
}

func (s stamp) String() string {
	switch {
	case s.allDay:
		return s.wall.Format(icsDate)
	case s.loc == time.UTC:
		return s.wall.Format(icsTime) + "Z"
	}
	return s.wall.Format(icsTime)
}

// at is the instant.
func (s stamp) at() time.Time {
	c := clock{loc: s.loc}
	return c.instant(s.wall).at
}

// on is what a clock in another zone shows then.
func (s stamp) on(loc *time.Location) time.Time {
	if s.allDay || s.loc == loc || s.loc.String() == loc.String() {
		return s.wall
	}
	return wallTime(s.at(), loc)
}

// stamp reads a property with one time.
func (r *icsReader) stamp(p *ical.Prop) (stamp, error) {
	s, err := r.parse(p, p.Value)
	if err != nil {
		return stamp{}, fmt.Errorf("%s %w", p.Name, err)
	}
	return s, nil
}

// stamps reads the properties with lists of times that go with a start.
func (r *icsReader) stamps(props ical.Props, name string, from stamp) ([]stamp, error) {
	var list []stamp
	for i := range props[name] {
		p := &props[name][i]
		for value := range strings.SplitSeq(p.Value, ",") {
			s, err := r.parse(p, value)
			if err == nil && s.allDay != from.allDay {
				err = fmt.Errorf("%q is not of the kind of DTSTART: write both as dates or both as times", clip(value))
			}
			if err != nil {
				return nil, fmt.Errorf("%s %w", name, err)
			}
			if list = append(list, s); len(list) > maxOccurrences {
				return nil, fmt.Errorf("%s lists more than %d times", name, maxOccurrences)
			}
		}
	}
	return list, nil
}

// parse reads one value of a property: a date, a time in UTC (Z), in the zone
// of the property (TZID), or in the zone of the window.
func (r *icsReader) parse(p *ical.Prop, value string) (stamp, error) {
	value = strings.TrimSpace(value)
	s := stamp{loc: r.zone}
	kind := strings.ToUpper(p.Params.Get(ical.ParamValue))
	if kind != "" && kind != "DATE" && kind != "DATE-TIME" {
		return stamp{}, fmt.Errorf("is a %s: write a date or a time", clip(kind))
	}
	form, inUTC := icsTime, strings.HasSuffix(value, "Z")
	switch {
	case len(value) == len(icsDate):
		s.allDay, form = true, icsDate
	case inUTC:
		s.loc, form = time.UTC, icsTime+"Z"
	}
	wall, err := time.Parse(form, value)
	switch {
	case err != nil, kind == "DATE" && !s.allDay, kind == "DATE-TIME" && s.allDay:
		return stamp{}, fmt.Errorf("%q is not a time: write 20261225, 20261225T080000 or 20261225T080000Z", clip(value))
	case wall.Year() < FirstYear || wall.Year() > LastYear:
		return stamp{}, fmt.Errorf("%q is outside the years %d to %d", value, FirstYear, LastYear)
	}
	s.wall = wall
	if zone := p.Params.Get(ical.ParamTimezoneID); zone != "" && !s.allDay && !inUTC {
		if s.loc, err = parseZone(zone); err != nil {
			return stamp{}, fmt.Errorf("TZID %w", err)
		}
	}
	return s, nil
}

// length reads how long an event lasts. A day without an end is one day long.
func (r *icsReader) length(p ical.Props, from stamp) (length, error) {
	end, span := p.Get(ical.PropDateTimeEnd), p.Get(ical.PropDuration)
	var l length
	var err error
	switch {
	case end != nil && span != nil:
		return length{}, errors.New("has both DTEND and DURATION: drop one")
	case end != nil:
		l, err = r.lengthTo(end, from)
	case span != nil:
		l, err = parseICSDuration(span.Value)
		if err == nil && from.allDay && l.elapsed > 0 {
			err = fmt.Errorf("DURATION %q of a whole day is not in days", clip(span.Value))
		}
	case from.allDay:
		l = length{days: 1}
	default:
		return length{}, errors.New("has no end: write DTEND or DURATION")
	}
	switch {
	case err != nil:
		return length{}, err
	case l.atMost() > maxLength:
		return length{}, fmt.Errorf("lasts longer than %d years", maxLength/(366*day))
	}
	return l, nil
}

func (r *icsReader) lengthTo(end *ical.Prop, from stamp) (length, error) {
	to, err := r.stamp(end)
	switch {
	case err != nil:
		return length{}, err
	case to.allDay != from.allDay:
		return length{}, errors.New("DTEND is not of the kind of DTSTART: write both as dates or both as times")
	case to.allDay && to.wall.After(from.wall):
		return length{days: int(to.wall.Sub(from.wall) / day)}, nil
	case !to.allDay && to.at().After(from.at()):
		return length{elapsed: to.at().Sub(from.at())}, nil
	}
	return length{}, fmt.Errorf("DTEND %s is not after DTSTART", to)
}

var icsDuration = regexp.MustCompile(`^\+?P(?:([0-9]{1,4})W|(?:([0-9]{1,4})D)?(?:T(?:([0-9]{1,5})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,9})S)?)?)$`)

// parseICSDuration reads a duration as calendars write it, such as P1D or PT8H.
func parseICSDuration(text string) (length, error) {
	m := icsDuration.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(text)))
	if m == nil {
		return length{}, fmt.Errorf("DURATION %q is not one: write P1D or PT8H", clip(text))
	}
	var n [6]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i]) // digits, or empty for none
	}
	l := length{days: 7*n[1] + n[2], elapsed: time.Duration(n[3])*time.Hour + time.Duration(n[4])*time.Minute + time.Duration(n[5])*time.Second}
	if l == (length{}) {
		return length{}, fmt.Errorf("DURATION %q is not longer than zero", clip(text))
	}
	return l, nil
}
