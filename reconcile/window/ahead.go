// SPDX-License-Identifier: Apache-2.0

package window

import (
	"iter"
	"time"
)

const (
	// fewSteps in search of an opening are taken from phase to phase, which are
	// remembered; a longer search walks each window once.
	fewSteps = 4
	// maxFrozen bounds how many openings that freezes cover are walked past.
	maxFrozen = 256
	// skipped runs are walked past before a walk starts anew, later.
	skipped = 16
)

// upcomingOpening is what is found ahead. The zero value: nothing opens again.
type upcomingOpening struct {
	at     time.Time
	opener *Window // nil when always open
	// covered: freezes cover the next openings, and it was not looked further.
	covered bool
}

// nextOpen is the first instant at or after t at which the calendar is open,
// and the window that opens it. It goes from opening to opening and past each
// freeze that covers one.
func (c Calendar) nextOpen(t time.Time) upcomingOpening {
	if c.unreadable() != nil {
		return upcomingOpening{}
	}
	allows, freezes := union{allows: c.Allows}, union{freezes: c.Freezes}
	for range fewSteps {
		allow := allows.openAt(t)
		opener := allow.first
		if !allow.open && !c.Always {
			if t, opener = allows.nextAfter(t); opener == nil {
				return upcomingOpening{}
			}
		}
		freeze := freezes.openAt(t)
		if !freeze.open {
			return upcomingOpening{at: t, opener: opener}
		}
		t = freeze.end
	}
	next := c.walkToOpen(t)
	if !next.at.IsZero() {
		next.opener = allows.openAt(next.at).first
	}
	return next
}

// walkToOpen is nextOpen for when freezes cover one opening after the other. It
// does not look for the opener.
func (c Calendar) walkToOpen(t time.Time) upcomingOpening {
	allows, freezes := newWalks(union{allows: c.Allows}), newWalks(union{freezes: c.Freezes})
	defer allows.stop()
	defer freezes.stop()
	for range maxFrozen {
		allowed, next := allows.at(t)
		switch {
		case c.Always, !allowed.IsZero():
		case next.IsZero():
			return upcomingOpening{}
		default:
			t = next
		}
		frozen, _ := freezes.at(t)
		if frozen.IsZero() {
			return upcomingOpening{at: t}
		}
		t = frozen
	}
	return upcomingOpening{covered: true}
}

// walks are the runs of several windows, each followed on its own.
type walks []walk

// walk is the runs of one window in order, at one of them.
type walk struct {
	window *Window
	next   func() (occurrence, bool)
	stop   func()
	run    occurrence
	ok     bool // there is a run
}

func newWalks(u union) walks {
	list := make(walks, u.size())
	for i := range list {
		list[i].window = u.member(i)
	}
	return list
}

func (ws walks) stop() {
	for _, w := range ws {
		if w.stop != nil {
			w.stop()
		}
	}
}

// at is the latest end of the runs that hold t, zero if there is none, and the
// first start after t, zero if none comes.
func (ws walks) at(t time.Time) (end, next time.Time) {
	for i := range ws {
		w := &ws[i]
		w.to(t)
		switch {
		case !w.ok:
		case w.run.start.After(t):
			next = earlier(next, w.run.start)
		case w.run.end.After(end):
			end = w.run.end
		}
	}
	return end, next
}

// to goes on to the first run that ends after t.
func (w *walk) to(t time.Time) {
	for n := 0; w.next == nil || w.ok && !w.run.end.After(t); n++ {
		if w.next == nil || n == skipped {
			if w.stop != nil {
				w.stop()
			}
			w.next, w.stop = iter.Pull(w.window.runs(t))
			n = 0
		}
		w.run, w.ok = w.next()
	}
}

// runs yields the merged runs that end after the given instant, in order. The
// first may have begun before it says.
func (w Window) runs(from time.Time) iter.Seq[occurrence] {
	if w.when == nil {
		return func(func(occurrence) bool) {}
	}
	return w.when.runs(from)
}

func (o oneOff) runs(from time.Time) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		if o.end.After(from) {
			yield(occurrence{start: o.start, end: o.end})
		}
	}
}

func (r *recurring) runs(from time.Time) iter.Seq[occurrence] {
	return joined(from, func(yield func(occurrence) bool) {
		for at := range r.starts(from.Add(-r.duration)) {
			if !yield(occurrence{start: at, end: at.Add(r.duration)}) {
				return
			}
		}
	})
}

// runs looks at one year after the other.
func (e *events) runs(from time.Time) iter.Seq[occurrence] {
	return joined(from, func(yield func(occurrence) bool) {
		to := from
		for year := range lookedAhead {
			since := to
			to = from.AddDate(year+1, 0, 0)
			for _, r := range e.runsBetween(since, to) {
				if !r.start.After(to) && !yield(r) {
					return
				}
			}
		}
		for _, r := range e.fixed {
			if r.start.After(to) && !yield(r) {
				return
			}
		}
	})
}

// joined merges occurrences in order of their start, and leaves out what ends
// before the given instant.
func joined(from time.Time, list iter.Seq[occurrence]) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		var run occurrence
		for o := range list {
			switch {
			case !o.end.After(from):
			case run.end.IsZero():
				run = o
			case o.start.After(run.end):
				if !yield(run) {
					return
				}
				run = o
			case o.end.After(run.end):
				run.end = o.end
			}
		}
		if !run.end.IsZero() {
			yield(run)
		}
	}
}
