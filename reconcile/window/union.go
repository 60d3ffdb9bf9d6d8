// SPDX-License-Identifier: Apache-2.0

package window

import "time"

const (
	// maxJoins bounds how far windows that take turns are followed. A run that
	// is longer is said to close where the search stopped: too early, never too
	// late.
	maxJoins = 64
	// endlessJoins in a row are taken for windows that never close together.
	endlessJoins = 1000
)

// union is several windows, or several freezes, taken as one.
type union struct {
	allows  []Window
	freezes []Freeze
}

func (u union) size() int { return len(u.allows) + len(u.freezes) }

func (u union) member(i int) *Window {
	if i < len(u.allows) {
		return &u.allows[i]
	}
	return &u.freezes[i-len(u.allows)].Window
}

// run is what a union is at an instant.
type run struct {
	open bool
	// always: open at every instant, with neither start nor end.
	always bool
	// start and end of the merged run when open.
	start, end time.Time
	// first began the run and last ends it, when open.
	first, last *Window
	// next is when the following run starts and opener what starts it; zero is never.
	next   time.Time
	opener *Window
}

// at finds the merged run that holds t and the run that follows.
func (u union) at(t time.Time) run {
	r := u.openAt(t)
	edge := t
	if r.open {
		r = u.extendBack(u.extend(r))
		edge = r.end
	}
	r.next, r.opener = u.nextAfter(edge)
	return r
}

// nextAfter is the next start of a run of any window after t, and that window.
func (u union) nextAfter(t time.Time) (next time.Time, opener *Window) {
	for i := range u.size() {
		w := u.member(i)
		if n := w.phase(t).next; !n.IsZero() && (next.IsZero() || n.Before(next)) {
			next, opener = n, w
		}
	}
	return next, opener
}

// openAt unites the runs that hold t.
func (u union) openAt(t time.Time) run {
	var r run
	for i := range u.size() {
		w := u.member(i)
		p := w.phase(t)
		if !p.open {
			continue
		}
		if !r.open || p.from.Before(r.start) {
			r.start, r.first = p.from, w
		}
		if !r.open || p.end.After(r.end) {
			r.end, r.last = p.end, w
		}
		r.open = true
	}
	return r
}

// extend follows windows that are open when the run would end.
func (u union) extend(r run) run {
	if u.size() < 2 {
		return r // the run of a single window is merged already
	}
	for range maxJoins {
		n := u.openAt(r.end)
		if !n.open {
			break
		}
		r.end, r.last = n.end, n.last
	}
	return r
}

// endless reports whether the run that holds t has no end worth waiting for.
func (u union) endless(t time.Time) bool {
	for range endlessJoins {
		n := u.openAt(t)
		if !n.open {
			return false
		}
		t = n.end
	}
	return true
}

// extendBack follows windows that are open, or just closing, when the run starts.
func (u union) extendBack(r run) run {
	if u.size() < 2 {
		return r
	}
	for range maxJoins {
		n := u.openAt(r.start.Add(-1))
		if !n.open {
			break
		}
		r.start = n.start
	}
	r.first = u.openAt(r.start).first // also when it has closed since
	return r
}
