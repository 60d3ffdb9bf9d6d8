// SPDX-License-Identifier: Apache-2.0

package window

import (
	"slices"
	"sort"
	"time"
)

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
