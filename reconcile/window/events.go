// SPDX-License-Identifier: Apache-2.0

package window

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
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

// event is something that happens at one or more times on the wall clock of a zone.
type event struct {
	summary string
	loc     *time.Location
	allDay  bool
	length  length
	// starts are wall-clock times, sorted.
	starts []time.Time
	// rule repeats it for ever, after first and except then; nil does not.
	rule   *yearly
	first  time.Time
	except []time.Time
}

// length is days on the calendar, of whatever length, and elapsed time after them.
type length struct {
	days    int
	elapsed time.Duration
}

// atMost bounds a length in elapsed time.
func (l length) atMost() time.Duration {
	return time.Duration(l.days)*day + l.elapsed + slack
}

// occurrence is one time at which an event happens.
type occurrence struct {
	start, end time.Time
	summary    string
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

// at is the occurrence that starts when the wall clock shows w. Whole days end
// when a day begins, however long they are.
func (ev event) at(c *clock, w time.Time) occurrence {
	s := occurrence{start: c.instant(w).at, summary: ev.summary}
	s.end = s.start
	if ev.length.days > 0 {
		s.end = c.instant(w.AddDate(0, 0, ev.length.days)).at
	}
	s.end = s.end.Add(ev.length.elapsed)
	return s
}

func byStart(a, b occurrence) int {
	return cmp.Or(a.start.Compare(b.start), a.end.Compare(b.end), cmp.Compare(a.summary, b.summary))
}

// merged unites sorted spans that overlap or touch.
func merged(spans []occurrence) []occurrence {
	var runs []occurrence
	for _, s := range spans {
		if last := len(runs) - 1; last >= 0 && !s.start.After(runs[last].end) {
			if s.end.After(runs[last].end) {
				runs[last].end = s.end
			}
			continue
		}
		runs = append(runs, s)
	}
	return runs
}

// repeated are the occurrences of endless events that touch [from, to], sorted.
func (e *events) repeated(from, to time.Time) []occurrence {
	var found []upcoming
	early, late := from.UTC().Add(-e.longest.endless-slack), to.UTC().Add(slack)
	for i := range e.endless {
		ev := &e.endless[i]
		for year := early.Year(); year <= late.Year(); year++ {
			for w := range ev.rule.in(year, ev.first) {
				if !w.Before(early) && !w.After(late) && !slices.Contains(ev.except, w) {
					found = append(found, upcoming{w, ev})
				}
			}
		}
	}
	return slices.DeleteFunc(happen(found), func(o occurrence) bool { return o.end.Before(from) || o.start.After(to) })
}

// upcoming is an event at one wall-clock time.
type upcoming struct {
	at time.Time
	ev *event
}

// happen maps events to instants, and sorts them. What begins and ends in a gap
// of the clock does not happen.
func happen(list []upcoming) []occurrence {
	// In order of the wall clock, most are in the period that the clock remembers.
	slices.SortFunc(list, func(a, b upcoming) int { return a.at.Compare(b.at) })
	out := make([]occurrence, 0, len(list))
	clocks := map[*time.Location]*clock{}
	for _, u := range list {
		c := clocks[u.ev.loc]
		if c == nil {
			c = &clock{loc: u.ev.loc}
			clocks[u.ev.loc] = c
		}
		if o := u.ev.at(c, u.at); o.start.Before(o.end) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, byStart)
	return out
}

func (e *events) phase(t time.Time) phase {
	if p, ok := e.memo.at(t); ok {
		return p
	}
	p := e.search(t)
	e.memo.keep(p)
	return p
}

// search looks a little back and a year ahead, and farther until the answer
// does not depend on what lies beyond.
func (e *events) search(t time.Time) phase {
	const farthestAhead, farthestBack = 40, 40 * 366 * day
	for back, ahead := e.longest.endless+day, 1; ; {
		from, to := t.Add(-back), t.AddDate(ahead, 0, 0)
		p, whole := e.scan(t, from, to)
		late := p.end.After(to) || p.next.IsZero() || p.next.After(to)
		switch {
		case len(e.endless) == 0:
			return p
		case !whole && back < farthestBack:
			back *= 4
		case late && ahead < farthestAhead:
			ahead *= 3
		default:
			return p
		}
	}
}

// scan is the phase at t as far as it is seen between from and to. The run that
// holds t is whole if nothing before from can touch it.
func (e *events) scan(t, from, to time.Time) (p phase, whole bool) {
	whole = true
	if len(e.endless) > 0 {
		p.from = from
	}
	for _, r := range e.runsBetween(from, to) {
		switch {
		case !r.end.After(t):
			p.from = r.end
		case r.start.After(t):
			p.next = r.start
			return p, whole
		default:
			p = phase{open: true, from: r.start, end: r.end}
			whole = !r.start.Before(from)
		}
	}
	return p, whole
}

// runsBetween are the merged runs that touch [from, to], the last one before
// and the first one after.
func (e *events) runsBetween(from, to time.Time) []occurrence {
	first := sort.Search(len(e.fixed), func(i int) bool { return !e.fixed[i].end.Before(from) })
	end := sort.Search(len(e.fixed), func(i int) bool { return e.fixed[i].start.After(to) })
	fixed := e.fixed[max(first-1, 0):min(end+1, len(e.fixed))]
	if len(e.endless) == 0 {
		return fixed
	}
	if first > 0 {
		fixed = fixed[1:] // what came after it is not known
	}
	all := append(e.repeated(from, to), fixed...)
	slices.SortFunc(all, byStart)
	return merged(all)
}

// summaryAt names the event in force at t; of several the one that began first.
func (e *events) summaryAt(t time.Time) string {
	holding := e.repeated(t, t)
	first := sort.Search(len(e.spans), func(i int) bool { return e.spans[i].start.After(t.Add(-e.longest.span)) })
	for _, s := range e.spans[first:] {
		if s.start.After(t) {
			break
		}
		holding = append(holding, s)
	}
	slices.SortFunc(holding, byStart)
	for _, s := range holding {
		if !t.Before(s.start) && t.Before(s.end) {
			return s.summary
		}
	}
	return ""
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
