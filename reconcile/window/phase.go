// SPDX-License-Identifier: Apache-2.0

package window

import (
	"sync/atomic"
	"time"
)

// phase is a span [from, until) in which a window does not change.
type phase struct {
	open bool
	// from is the start of the merged run when open. When shut it may be later
	// than the last close: it is as far back as was looked.
	from time.Time
	// end of the merged run when open.
	end time.Time
	// next is when the following run starts; zero is never.
	next time.Time
}

// until is when the phase ends; zero is never.
func (p phase) until() time.Time {
	if p.open {
		return p.end
	}
	return p.next
}

// contains reports whether the phase still answers for t.
func (p phase) contains(t time.Time) bool {
	until := p.until()
	return !t.Before(p.from) && (until.IsZero() || t.Before(until))
}

func (o oneOff) phase(t time.Time) phase {
	switch {
	case t.Before(o.start):
		return phase{next: o.start}
	case t.Before(o.end):
		return phase{open: true, from: o.start, end: o.end}
	}
	return phase{from: o.end}
}

// phase looks back far enough to find the start of the run that holds t: twice
// the length of a window, and farther each time windows touch all the way.
func (r *recurring) phase(t time.Time) phase {
	if p, ok := r.memo.at(t); ok {
		return p
	}
	const farther, farthest = 4, judgedYears * 366 * day
	for back := 2 * r.duration; ; back *= farther {
		p, sure := r.scan(t.Add(-back), t)
		if sure || back > farthest {
			r.memo.keep(p)
			return p
		}
	}
}

// scan merges the openings from the given instant on until it knows the phase
// at t. It is not sure of a run that may have begun before.
func (r *recurring) scan(from, t time.Time) (p phase, sure bool) {
	known := from.Add(r.duration) // from here on every opening that matters is seen
	var start, end, next time.Time
	for s := range r.starts(from) {
		holds := !end.IsZero() && t.Before(end) // the run so far holds t
		if holds && start.Before(known) && s.After(t) {
			break
		}
		if !end.IsZero() && !s.After(end) {
			end = s.Add(r.duration)
			continue
		}
		if holds || s.After(t) {
			next = s
			break
		}
		start, end = s, s.Add(r.duration)
	}
	if !end.IsZero() && t.Before(end) {
		return phase{open: true, from: start, end: end, next: next}, !start.Before(known)
	}
	if end.After(known) {
		known = end
	}
	return phase{from: known, next: next}, true
}

// memo keeps the last phases of one window. They are facts about the schedule,
// so that what is found in it is what would be computed.
type memo struct {
	slots [4]atomic.Pointer[phase]
	turn  atomic.Uint32
}

func (m *memo) at(t time.Time) (phase, bool) {
	for i := range m.slots {
		if p := m.slots[i].Load(); p != nil && p.contains(t) {
			return *p, true
		}
	}
	return phase{}, false
}

func (m *memo) keep(p phase) {
	m.slots[m.turn.Add(1)%uint32(len(m.slots))].Store(&p)
}
