// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"time"

	"lamplighter.dev/reconcile/window"
)

// calendarEndsSoon is how long before its last event ends a calendar is told to
// need more.
const calendarEndsSoon = 60 * 24 * time.Hour

// readFreezeTimes reads when a freeze is in force: as a window does, or during
// the events of a calendar. It leaves in d what matters of the calendar.
func readFreezeTimes(name string, spec *fields, d *Document) (window.Window, bool) {
	if !spec.has("calendar") {
		spec.take("calendar")
		return readTimes(name, spec)
	}
	zone, file := spec.text("timeZone"), spec.text("calendar")
	ok := true
	for _, f := range []string{"schedule", "duration", "start", "end"} {
		if _, set := spec.take(f); set {
			spec.errorf(f, "does not go with calendar, whose events say when: drop one of them")
			ok = false
		}
	}
	if spec.blank("timeZone") {
		spec.errorf("timeZone", "is required with calendar: the IANA name of the place whose days they are, such as Europe/Berlin, or UTC")
		ok = false
	}
	switch {
	case file == "":
		if spec.values["calendar"] == "" {
			spec.errorf("calendar", "is empty: name an iCalendar file, such as holidays.ics")
		}
		return window.Window{}, false
	case d.CalendarFault != "":
		spec.errorf("calendar", "%s", d.CalendarFault)
		return window.Window{}, false
	case !ok:
		return window.Window{}, false
	}
	w, err := window.Events(window.EventsSpec{Name: name, TimeZone: zone, ICS: d.Calendar})
	if e, is := errors.AsType[*window.SpecError](err); is {
		for _, f := range e.Fields {
			if f.Field == "calendar" {
				f.Message = file + ": " + f.Message
			}
			spec.errorf(f.Field, "%s", f.Message)
		}
	}
	d.Calendar = w.ICS()
	return w, err == nil
}

// refuseCalendar: a window is something that somebody decides, not a day on
// which nobody works.
func refuseCalendar(spec *fields) {
	if spec.has("calendar") {
		spec.take("calendar")
		spec.errorf("calendar", "is a field of a Freeze: a window has a schedule, or a start and an end")
	}
}

// warnCalendarEnd tells when a calendar runs out of events.
func warnCalendarEnd(f freezeEntry, now time.Time) {
	end := f.Freeze.Freeze.LastEnd()
	switch {
	case end.IsZero() || end.Sub(now) >= calendarEndsSoon:
	case end.After(now):
		f.subject.warnf("spec.calendar", "its last event ends %s: add those that follow", end.Format(time.RFC3339))
	default:
		f.subject.warnf("spec.calendar", "its last event ended %s: it freezes nothing any more, add those that follow", end.Format(time.RFC3339))
	}
}
