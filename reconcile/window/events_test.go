// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the wanted output of testdata/events/*.txt")

// TestEventCases runs the calendars in testdata/events. The first words of a
// case are the zone and the first and last day whose spans are listed; its
// sections are the calendar, what Events says of it, and how it is kept.
func TestEventCases(t *testing.T) {
	files, err := filepath.Glob("testdata/events/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(string(a.Comment))
			got := eventAnswer(t, words[0], words[1], words[2], string(a.Files[0].Data))
			if *update {
				a.Files = append(a.Files[:1], got...)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(a.Files[1:], got); diff != "" {
				t.Errorf("-want +got (-update rewrites it):\n%s", diff)
			}
		})
	}
}

func eventAnswer(t *testing.T, zone, from, to, ics string) []txtar.File {
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
		return []txtar.File{{Name: "errors", Data: []byte(b.String())}}
	}
	again, err := Events(EventsSpec{Name: "holidays", TimeZone: zone, ICS: w.ICS()})
	if err != nil || !again.Equal(w) {
		t.Errorf("read again: %v\n%s\nnot\n%s", err, again.ICS(), w.ICS())
	}
	return []txtar.File{{Name: "spans", Data: []byte(spansOf(w, at(t, from), at(t, to)))}, {Name: "kept", Data: []byte(w.ICS())}}
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
