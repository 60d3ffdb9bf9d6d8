// SPDX-License-Identifier: Apache-2.0

package window

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Calendar is the time of one policy: it is open while one of its windows is
// and no freeze is in force. The zero Calendar is shut for ever.
type Calendar struct {
	// Always stands for a window that never closes. Freezes still count.
	Always  bool
	Allows  []Window
	Freezes []Freeze
}

// Moment is a calendar at one instant. It may be used from many goroutines.
type Moment struct {
	calendar Calendar
	now      time.Time
	any      State
	byNode   *nodeStates // nil when no window has a selector
}

// nodeStates keeps one state for each set of windows that a node is in.
type nodeStates struct {
	mu    sync.Mutex
	bySet map[uint64]State
	fits  map[fitKey]Fit
}

// At evaluates the calendar at the given instant.
func (c Calendar) At(now time.Time) Moment {
	m := Moment{calendar: c, now: now, any: c.state(now)}
	for i := range c.Allows {
		if c.Allows[i].Selector != nil {
			m.byNode = &nodeStates{bySet: map[uint64]State{}, fits: map[fitKey]Fit{}}
			break
		}
	}
	return m
}

// Any is the state for some node: open if a node exists, or might, for which
// the calendar is open.
func (m Moment) Any() State {
	return m.any
}

// For is the state for a node with these labels. A node that no window selects
// is shut.
func (m Moment) For(node labels.Set) State {
	if m.byNode == nil || m.calendar.Always {
		return m.any
	}
	set, ok := m.windowsOf(node)
	if !ok {
		return m.calendar.For(node).state(m.now)
	}
	m.byNode.mu.Lock()
	defer m.byNode.mu.Unlock()
	s, ok := m.byNode.bySet[set]
	if !ok {
		s = m.calendar.For(node).state(m.now)
		m.byNode.bySet[set] = s
	}
	return s
}

// windowsOf are the windows that select a node, unless there are too many for one set.
func (m Moment) windowsOf(node labels.Set) (set uint64, ok bool) {
	const most = 64
	if len(m.calendar.Allows) > most {
		return 0, false
	}
	for i := range m.calendar.Allows {
		if m.calendar.Allows[i].selects(node) {
			set |= 1 << i
		}
	}
	return set, true
}

// For is the calendar for a node with these labels: only the windows that
// select it.
func (c Calendar) For(node labels.Set) Calendar {
	var allows []Window
	for _, w := range c.Allows {
		if w.selects(node) {
			allows = append(allows, w)
		}
	}
	return Calendar{Always: c.Always, Allows: allows, Freezes: c.Freezes}
}

// NeverCloses reports whether windows that are for every node take turns so
// that, open at the given instant or next, they never close.
func (c Calendar) NeverCloses(from time.Time) bool {
	var u union
	for _, w := range c.Allows {
		if w.Selector == nil {
			u.allows = append(u.allows, w)
		}
	}
	if r := u.at(from); !r.open {
		from = r.next
	}
	return !from.IsZero() && u.endless(from)
}

// allowed is the merged run of the windows at t.
func (c Calendar) allowed(t time.Time) run {
	if c.Always {
		return run{open: true, always: true}
	}
	return union{allows: c.Allows}.at(t)
}

// frozen is the merged run of the freezes at t. A freeze without times is
// always in force: what cannot be read is shut.
func (c Calendar) frozen(t time.Time) run {
	if f := c.unreadable(); f != nil {
		return run{open: true, always: true, first: f, last: f}
	}
	return union{freezes: c.Freezes}.at(t)
}

// unreadable is the first freeze that was never built, if there is one.
func (c Calendar) unreadable() *Window {
	for i := range c.Freezes {
		if f := &c.Freezes[i].Window; f.when == nil {
			return f
		}
	}
	return nil
}
