// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"lamplighter.dev/internal/casefile"
)

// TestEventCases runs the calendars in testdata/events. The first words of a
// case are the zone and the first and last day whose spans are listed; its
// sections are the calendar, what Events says of it, and how it is kept.
func TestEventCases(t *testing.T) {
	casefile.Run(t, "testdata/events/*.txt", func(t *testing.T, given *txtar.Archive) txtar.File {
		words := strings.Fields(string(given.Comment))
		return eventAnswer(t, words[0], words[1], words[2], string(given.Files[0].Data))
	})
}

func eventAnswer(t *testing.T, zone, from, to, ics string) txtar.File {
	t.Helper()
	w, err := Events(EventsSpec{Name: "holidays", TimeZone: zone, ICS: ics})
	if err != nil {
		e, ok := errors.AsType[*SpecError](err)
		if !ok {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range e.Fields {
			fmt.Fprintf(&b, "%s: %s\n", f.Field, f.Message)
		}
		if (Calendar{Allows: []Window{w}}).At(benchNow).Any().Open {
			t.Error("refused, and open")
		}
		return casefile.Error(b.String())
	}
	again, err := Events(EventsSpec{Name: "holidays", TimeZone: zone, ICS: w.ICS()})
	if err != nil || !again.Equal(w) {
		t.Errorf("read again: %v\n%s\nnot\n%s", err, again.ICS(), w.ICS())
	}
	return casefile.Want(spansOf(w, at(t, from), at(t, to)) + "kept as\n" + w.ICS())
}

// spansOf lists the merged runs, each with the event that begins it.
func spansOf(w Window, from, to time.Time) string {
	var b strings.Builder
	for at := from; at.Before(to); {
		p := w.phase(at)
		if p.open {
			fmt.Fprintf(&b, "%s to %s %s\n", p.from.In(w.Location()).Format("Mon 2006-01-02 15:04 MST"), p.end.In(w.Location()).Format("Mon 2006-01-02 15:04 MST"), w.Event(p.from))
			at = p.end
			continue
		}
		if p.next.IsZero() {
			break
		}
		at = p.next
	}
	return b.String()
}
