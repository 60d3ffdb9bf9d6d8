// SPDX-License-Identifier: Apache-2.0

package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nextOpenByPhases is walkToOpen as one would write it first.
func nextOpenByPhases(c Calendar, t time.Time) time.Time {
	allows, freezes := union{allows: c.Allows}, union{freezes: c.Freezes}
	for range maxFrozen {
		if !c.Always && !allows.openAt(t).open {
			if t, _ = allows.nextAfter(t); t.IsZero() {
				return t
			}
		}
		freeze := freezes.openAt(t)
		if !freeze.open {
			return t
		}
		t = freeze.end
	}
	return time.Time{}
}

func TestWalkFindsWhatPhasesFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		g := newGenerator(rapid.Uint64().Draw(t, "freezes"))
		d.calendar.Always = g.IntN(8) == 0
		for range g.IntN(3) {
			f := g.recurring(pick(g, testZones...), d.now, "f")
			if len(d.calendar.Allows) > 0 && g.IntN(2) == 0 { // the same times, a little longer
				if r, ok := d.calendar.Allows[0].when.(*recurring); ok {
					spec := r.spec
					spec.Duration = (r.duration + time.Minute).String()
					if w, err := Recurring(spec); err == nil {
						f = w
					}
				}
			}
			d.calendar.Freezes = append(d.calendar.Freezes, Freeze{Window: f})
		}
		want := nextOpenByPhases(d.calendar, d.now)
		if got := d.calendar.walkToOpen(d.now).at; !got.Equal(want) {
			t.Fatalf("walk %v, phases %v\n%v", got, want, d.calendar)
		}
		if got := d.calendar.nextOpen(d.now).at; !got.Equal(want) && len(d.calendar.Freezes) > 0 {
			t.Fatalf("next open %v, phases %v\n%v", got, want, d.calendar)
		}
	})
}

// TestManyOpeningsInARowMayBeFrozen: a winter of nights, each frozen by itself.
func TestManyOpeningsInARowMayBeFrozen(t *testing.T) {
	c := Calendar{
		Allows:  []Window{build(t, "nights", "Europe/Berlin", "0 22 * * *", "6h")},
		Freezes: []Freeze{{Window: build(t, "winter", "Europe/Berlin", "0 21 * 11,12,1,2,3 *", "8h")}},
	}
	s := c.At(at(t, "2026-11-01T12:00:00Z")).Any()
	if want := at(t, "2027-04-01T20:00:00Z"); s.Open || !s.NextOpen.Equal(want) || s.By != "nights" {
		t.Errorf("opens %v by %s, want %v", s.NextOpen, s.By, want)
	}
}
