// SPDX-License-Identifier: Apache-2.0

package window

import (
	"fmt"
	"strings"
	"time"
)

// Years of the instants and dates that may be written: package time and the
// rules of zones are sure of them, and what follows from them has four digits.
const FirstYear, LastYear = 1600, 2400

// RecurringSpec is a recurring window as people write it. Every field is required.
type RecurringSpec struct {
	Name string
	// TimeZone is an IANA name; UTC has to be said.
	TimeZone string
	// Schedule is a five-field cron expression: when the window opens.
	Schedule string
	// Duration is elapsed time in whole minutes, such as "6h".
	Duration string
}

// FieldError says what is wrong with one field and what to write instead.
type FieldError struct {
	Field, Message string
}

// SpecError lists everything that is wrong with a window.
type SpecError struct {
	Name   string
	Fields []FieldError
}

// Error is one line that names the window first.
func (e *SpecError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "window %s: ", e.Name)
	for i, f := range e.Fields {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Field + ": " + f.Message)
	}
	return b.String()
}

// Recurring compiles a recurring window. The error is a *SpecError.
func Recurring(spec RecurringSpec) (Window, error) {
	var faults []FieldError
	check := func(field string, err error) {
		if err != nil {
			faults = append(faults, FieldError{Field: field, Message: err.Error()})
		}
	}
	loc, err := parseZone(spec.TimeZone)
	check("timeZone", err)
	schedule, err := parseSchedule(spec.Schedule)
	check("schedule", err)
	duration, err := parseWindowDuration(spec.Duration)
	check("duration", err)
	if schedule != nil && duration > 0 {
		if fault := fits(*schedule, duration); fault.Message != "" {
			faults = append(faults, fault)
		}
	}
	if len(faults) > 0 {
		return Window{Name: spec.Name}, &SpecError{Name: spec.Name, Fields: faults}
	}
	return Window{Name: spec.Name, when: &recurring{spec: spec, ticks: *schedule, loc: loc, duration: duration}}, nil
}

// OneOff is the window [start, end). The error is a *SpecError.
func OneOff(name string, start, end time.Time) (Window, error) {
	if start.IsZero() || !start.Before(end) {
		return Window{Name: name}, &SpecError{Name: name, Fields: []FieldError{{
			Field:   "end",
			Message: fmt.Sprintf("%s is not after start %s", end.Format(time.RFC3339), start.Format(time.RFC3339)),
		}}}
	}
	return Window{Name: name, when: oneOff{start: start, end: end}}, nil
}

// recurring is a schedule in a zone. All of it but the memo is fixed when it is built.
type recurring struct {
	spec     RecurringSpec
	ticks    ticks // on a UTC timeline that stands for the wall clock
	loc      *time.Location
	duration time.Duration
	memo     memo
}

func (r *recurring) zone() *time.Location  { return r.loc }
func (r *recurring) length() time.Duration { return r.duration }

func (r *recurring) String() string {
	return fmt.Sprintf("%s %s for %s", strings.Join(strings.Fields(r.spec.Schedule), " "), r.spec.TimeZone, FormatDuration(r.duration))
}

// oneOff is the single span [start, end).
type oneOff struct {
	start, end time.Time
}

func (o oneOff) zone() *time.Location  { return o.start.Location() }
func (o oneOff) length() time.Duration { return o.end.Sub(o.start) }

func (o oneOff) String() string {
	return fmt.Sprintf("%s to %s", o.start.Format(time.RFC3339Nano), o.end.Format(time.RFC3339Nano))
}
