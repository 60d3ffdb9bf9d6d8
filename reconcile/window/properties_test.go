// SPDX-License-Identifier: Apache-2.0

package window

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn is a random calendar and an instant near a change of the clocks.
type drawn struct {
	calendar Calendar
	now      time.Time
}

func draw(t *rapid.T) drawn {
	g := newGenerator(rapid.Uint64().Draw(t, "seed"))
	c, _, near, said := g.calendar()
	t.Log(said)
	return drawn{calendar: c, now: g.instant(near)}
}

func TestMoreWindowsNeverShut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		more := d.calendar
		more.Allows = append(more.Allows, draw(t).calendar.Allows...)
		before, after := d.calendar.At(d.now).Any(), more.At(d.now).Any()
		if before.Open && !after.Open {
			t.Fatal("a window more shut the calendar")
		}
		if before.Open && after.Close.Before(before.Close) {
			t.Fatalf("a window more closes it at %v, not %v", after.Close, before.Close)
		}
		if !before.NextOpen.IsZero() && !before.Open && !after.Open && after.NextOpen.After(before.NextOpen) {
			t.Fatalf("a window more opens it at %v, not %v", after.NextOpen, before.NextOpen)
		}
	})
}

func TestFreezeNeverOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		free := d.calendar
		free.Freezes = nil
		with, without := d.calendar.At(d.now).Any(), free.At(d.now).Any()
		if with.Open && !without.Open {
			t.Fatal("a freeze opened the calendar")
		}
		if with.Open && with.Close.After(without.Close) {
			t.Fatalf("a freeze moved the close from %v to %v", without.Close, with.Close)
		}
		if with.Open && with.Frozen {
			t.Fatal("open while frozen")
		}
	})
}

func TestValidUntilIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		s := d.calendar.At(d.now).Any()
		if followedInPart(d.calendar, s) {
			return // its times move on while it is followed
		}
		if s.ValidUntil.IsZero() {
			if later := d.calendar.At(d.now.AddDate(1, 0, 0)).Any(); !later.Equal(s) {
				t.Fatalf("valid for ever, but in a year %+v is %+v", s, later)
			}
			return
		}
		if !s.ValidUntil.After(d.now) {
			t.Fatalf("valid until %v, not after now", s.ValidUntil)
		}
		rest := int64(s.ValidUntil.Sub(d.now))
		for _, at := range []time.Time{
			d.now.Add(time.Duration(rapid.Int64Range(0, rest-1).Draw(t, "later"))),
			s.ValidUntil.Add(-1),
		} {
			if later := d.calendar.At(at).Any(); !later.Equal(s) {
				t.Fatalf("valid until %v, but at %v:\n%+v\n%+v", s.ValidUntil, at, s, later)
			}
		}
		if next := d.calendar.At(s.ValidUntil).Any(); next.Open == s.Open && next.Frozen == s.Frozen {
			t.Fatalf("nothing changes at %v", s.ValidUntil)
		}
	})
}

// followedInPart reports whether windows take turns for so long that the run
// which is open now, or comes next, is not known whole.
func followedInPart(c Calendar, s State) bool {
	u := union{allows: c.Allows}
	for _, t := range []time.Time{s.now, s.NextOpen, s.Close} {
		if t.IsZero() {
			continue
		}
		if r := u.at(t); r.open && (u.openAt(r.start.Add(-1)).open || u.openAt(r.end).open) {
			return true
		}
	}
	return false
}

// TestRunsAreFollowedInPart: days and nights that never close are one run, of
// which 64 turns each way are seen.
func TestRunsAreFollowedInPart(t *testing.T) {
	c := Calendar{Allows: []Window{build(t, "days", "UTC", "0 6 * * *", "12h"), build(t, "nights", "UTC", "0 18 * * *", "12h")}}
	s := c.At(at(t, "2026-06-15T11:00:00Z")).Any()
	if !followedInPart(c, s) || !s.Open || s.Close.Sub(s.now) > (maxJoins+2)*12*time.Hour || s.Close.Sub(s.now) < maxJoins*12*time.Hour {
		t.Errorf("open %v until %v", s.Open, s.Close)
	}
}

// TestRestartKeepsTheAnswer reads the windows again, as a new process does: what
// was asked before must not matter.
func TestRestartKeepsTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for _, hours := range rapid.SliceOfN(rapid.IntRange(-200, 200), 0, 8).Draw(t, "asked before") {
			d.calendar.At(d.now.Add(time.Duration(hours) * time.Hour))
		}
		warm := d.calendar.At(d.now).Any()
		cold := Calendar{Always: d.calendar.Always}
		for _, w := range d.calendar.Allows {
			cold.Allows = append(cold.Allows, rebuilt(t, w))
		}
		for _, f := range d.calendar.Freezes {
			cold.Freezes = append(cold.Freezes, Freeze{Window: rebuilt(t, f.Window)})
		}
		if again := cold.At(d.now).Any(); !again.Equal(warm) || again.Explain() != warm.Explain() {
			t.Fatalf("after a restart\n%+v\nis\n%+v", warm, again)
		}
	})
}

func rebuilt(t *rapid.T, w Window) Window {
	var again Window
	var err error
	switch when := w.when.(type) {
	case *recurring:
		again, err = Recurring(when.spec)
	case *events:
		again, err = Events(EventsSpec{Name: w.Name, TimeZone: when.loc.String(), ICS: w.ICS()})
	default:
		return w
	}
	if err != nil {
		t.Fatal(err)
	}
	if !again.Equal(w) {
		t.Fatalf("%s is not %s", again, w)
	}
	return again
}

// TestOpeningsAgreeWithState: an instant is in an opening exactly if the
// calendar is open, and each opening has its real start and end.
func TestOpeningsAgreeWithState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		s := d.calendar.At(d.now).Any()
		openings := d.calendar.Openings(d.now.Add(-3*day), d.now.Add(3*day))
		inside := false
		for i, o := range openings {
			inside = inside || !d.now.Before(o.Start) && d.now.Before(o.End)
			if !o.Start.Before(o.End) || i > 0 && !openings[i-1].End.Before(o.Start) {
				t.Fatalf("openings overlap or touch: %v", openings)
			}
			if open := d.calendar.openAt; open(o.Start.Add(-1)) || !open(o.Start) || !open(o.End.Add(-1)) || open(o.End) {
				t.Fatalf("not the whole of an opening: %v", o)
			}
		}
		if inside != s.Open {
			t.Fatalf("open %v, but openings are %v", s.Open, openings)
		}
	})
}

func (c Calendar) openAt(t time.Time) bool { return c.At(t).Any().Open }

// TestCoveredOpeningsAreFrozen: an opening that is said to be covered is open at
// no instant, and every opening of the windows is covered or happens in part.
func TestCoveredOpeningsAreFrozen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		from, to := d.now.Add(-3*day), d.now.Add(3*day)
		happen, covered := d.calendar.Openings(from.Add(-60*day), to.Add(60*day)), d.calendar.Covered(from, to)
		for _, o := range (Calendar{Always: d.calendar.Always, Allows: d.calendar.Allows}).Openings(from, to) {
			inPart := slices.ContainsFunc(happen, func(h Opening) bool { return h.Start.Before(o.End) && o.Start.Before(h.End) })
			said := slices.ContainsFunc(covered, func(c Opening) bool { return c.Start.Equal(o.Start) && c.End.Equal(o.End) && c.FrozenBefore != "" })
			if inPart == said {
				t.Fatalf("%v happens in part: %v, is covered: %v", o, inPart, said)
			}
		}
	})
}
