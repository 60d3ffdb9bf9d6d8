// SPDX-License-Identifier: Apache-2.0

package window

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// mostOpenings bounds how many openings are looked at for a long one.
const mostOpenings = 512

// Fit says whether something of a certain length has its place in an opening.
type Fit struct {
	// Found: one of the openings is long enough. Of one that is open now, what is
	// left of it counts.
	Found bool
	// Until is as far ahead as was looked: 512 openings, and as many of each window.
	// Zero when those are all.
	Until time.Time
}

// Fits looks for an opening for a node with these labels that is as long as that,
// at the moment or ahead.
func (m Moment) Fits(node labels.Set, length time.Duration) Fit {
	if m.byNode == nil || m.calendar.Always {
		return m.calendar.fits(m.now, length)
	}
	set, ok := m.windowsOf(node)
	if !ok {
		return m.calendar.For(node).fits(m.now, length)
	}
	key := fitKey{set, length}
	m.byNode.mu.Lock()
	defer m.byNode.mu.Unlock()
	f, ok := m.byNode.fits[key]
	if !ok {
		f = m.calendar.For(node).fits(m.now, length)
		m.byNode.fits[key] = f
	}
	return f
}

// fitKey is a set of windows, and a length.
type fitKey struct {
	set    uint64
	length time.Duration
}

// fits follows the openings and then, since short ones may come in between for long,
// those of each window on its own.
func (c Calendar) fits(t time.Time, length time.Duration) Fit {
	merged := c.follow(t, length)
	for i := 0; i < len(c.Allows) && len(c.Allows) > 1 && !merged.Found; i++ {
		merged.Found = Calendar{Allows: c.Allows[i : i+1], Freezes: c.Freezes}.follow(t, length).Found
	}
	if merged.Found {
		return Fit{Found: true}
	}
	return merged
}

func (c Calendar) follow(t time.Time, length time.Duration) Fit {
	for range mostOpenings {
		s := c.state(t)
		if !s.Open {
			if s.NextOpen.IsZero() {
				return Fit{Until: s.coveredUntil(t)}
			}
			t = s.NextOpen
			s = c.state(t)
		}
		if s.Close.IsZero() || s.Close.Sub(t) >= length {
			return Fit{Found: true}
		}
		t = s.Close
	}
	return Fit{Until: t.UTC()}
}

// coveredUntil is how far was looked when freezes cover so many openings that the
// next one is not known.
func (s State) coveredUntil(t time.Time) time.Time {
	if s.Covered {
		return t.UTC()
	}
	return time.Time{}
}
