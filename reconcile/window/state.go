// SPDX-License-Identifier: Apache-2.0

package window

import "time"

// State is what a calendar says at one instant. All times are in UTC; a zero
// time is never, or unknown. Apart from Explain, a State does not change
// before ValidUntil. Windows that take turns are followed for 64 turns each
// way: in a longer run, Opened and Close are those of the part that was seen.
type State struct {
	// Open: nodes may be visited.
	Open bool
	// Frozen: a freeze is in force, whether or not a window would be open.
	Frozen bool
	// Opened is when the windows that are open now, merged with those that they
	// touch, began. A freeze that has ended since does not move it. Zero when
	// shut, and when always open.
	Opened time.Time
	// Close is the effective close: when the merged windows end or the next
	// freeze begins, whichever is earlier. Zero when shut, and when nothing
	// closes it.
	Close time.Time
	// NextOpen is the next opening after now, or after Close when open. Zero
	// when none comes within five years, or when Covered.
	NextOpen time.Time
	// Covered: up to 256 times in a row a freeze covers what would be the next
	// opening, and NextOpen is not looked for any further.
	Covered bool
	// ValidUntil is when Open or Frozen changes. Zero is never.
	ValidUntil time.Time
	// By is what decides: the window that opened first when open, the freeze
	// when frozen, else the window that opens next.
	By string
	// Doubt says why nothing is known: the clock is not to be trusted. Then the
	// calendar is shut. Empty when it is known.
	Doubt string

	now     time.Time
	kept    time.Time // until when somebody keeps it open; zero when nobody does
	always  bool
	allow   run // the merged windows
	freeze  run // the freeze in force, or the next one
	next    *Window
	freezes []Freeze
	windows int
}

// Equal reports whether both states say the same.
func (s State) Equal(o State) bool {
	return s.Open == o.Open && s.Frozen == o.Frozen && s.Covered == o.Covered && s.By == o.By && s.Doubt == o.Doubt &&
		s.Opened.Equal(o.Opened) && s.Close.Equal(o.Close) &&
		s.NextOpen.Equal(o.NextOpen) && s.ValidUntil.Equal(o.ValidUntil)
}

// state evaluates every window and freeze once.
func (c Calendar) state(now time.Time) State {
	allow, freeze := c.allowed(now), c.frozen(now)
	s := State{
		Frozen: freeze.open, Open: allow.open && !freeze.open,
		now: now, always: c.Always, allow: allow, freeze: freeze, windows: len(c.Allows), freezes: c.Freezes,
	}
	after := now
	switch {
	case s.Frozen:
		s.By, s.ValidUntil = nameOf(freeze.first), freeze.end
	case s.Open:
		s.Opened, s.Close = allow.start, earlier(allow.end, freeze.next)
		s.By, s.ValidUntil = nameOf(allow.first), s.Close
		after = s.Close
	default:
		s.ValidUntil = earlier(allow.next, freeze.next)
	}
	if !s.Open || !s.Close.IsZero() {
		next := c.nextOpen(after)
		s.NextOpen, s.next, s.Covered = next.at, next.opener, next.covered
	}
	if !s.Open && !s.Frozen {
		s.By = nameOf(s.next)
	}
	s.Opened, s.Close, s.NextOpen, s.ValidUntil = utc(s.Opened), utc(s.Close), utc(s.NextOpen), utc(s.ValidUntil)
	return s
}

// reasonOf is the reason of the freeze that has this window.
func (s State) reasonOf(w *Window) string {
	for i := range s.freezes {
		if &s.freezes[i].Window == w {
			return s.freezes[i].Reason
		}
	}
	return ""
}

// earlier of two instants, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// utc is t in UTC; zero stays the zero Time, without a location to compare.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

func nameOf(w *Window) string {
	if w == nil {
		return ""
	}
	return w.Name
}
