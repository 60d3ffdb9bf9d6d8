// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/reconcile/window"
)

// FuzzParse: no document or calendar panics or takes long, every problem is one line that names its
// object, a document without problems is kept as it is, and what has an error
// does not open.
func FuzzParse(f *testing.F) {
	for _, file := range casefile.Files(f, "testdata/*.txt") {
		archive, _ := casefile.Read(f, file)
		for _, section := range archive.Files {
			if strings.HasSuffix(section.Name, ".yaml") {
				for _, d := range seeds(f, section) {
					f.Add(d, calendarOf(archive, d))
				}
			}
		}
	}
	daemonSets := []DaemonSet{{
		Name:         types.NamespacedName{Namespace: "kube-system", Name: "calico-node"},
		OriginalName: "calico-node", Labels: map[string]string{"tier": "cni"}, UpdateStrategy: onDelete,
	}}
	f.Fuzz(func(t *testing.T, data []byte, calendar string) {
		d := Document{File: "fuzz.yaml", Calendar: calendar}
		if json.Unmarshal(data, &d.Object) != nil || len(data)+len(calendar) > 16<<10 {
			return
		}
		var set Set
		var problems []Problem
		inTime(t, func() { set, problems = Parse([]Document{d}, daemonSets, caseNow) })
		for _, p := range problems {
			if line := p.String(); p.Message == "" || p.Object == "" || strings.ContainsAny(line, "\n\r") || strings.Contains(line, "%!") && !bytes.Contains(data, []byte("%!")) {
				t.Fatalf("%q", line)
			}
		}
		if !hasErrors(problems) && len(set.Windows)+len(set.Freezes)+len(set.Upgrades) != 1 {
			t.Fatalf("no error, and %+v", set)
		}
		for _, w := range set.Windows {
			if !hasErrors(problems) && w.Window.Length() <= 0 {
				t.Fatalf("no error, and window %s", w.Window)
			}
		}
		for _, f := range set.Freezes {
			if !hasErrors(problems) && f.Freeze.Length() <= 0 {
				t.Fatalf("no error, and freeze %s", f.Freeze)
			}
		}
		for _, at := range []time.Time{caseNow, caseNow.AddDate(0, 7, 11)} {
			neverOpens(t, set, at)
		}
		again, faults := ParseRecorded(stored(t, set.Documents()), caseNow)
		if !hasErrors(problems) && (hasErrors(faults) || len(again.Windows) != len(set.Windows) || len(again.Upgrades) != len(set.Upgrades)) {
			t.Fatalf("read again: %v", faults)
		}
		for i, f := range again.Freezes {
			if !hasErrors(problems) && !f.Freeze.Equal(set.Freezes[i].Freeze) {
				t.Fatalf("read again: freeze %s is not %s", f.Freeze, set.Freezes[i].Freeze)
			}
		}
	})
}

// neverOpens fails if something opens without a window, or in a freeze.
func neverOpens(t *testing.T, set Set, at time.Time) {
	t.Helper()
	for _, u := range set.Upgrades {
		if u.Calendar.At(at).Any().Open && !u.Calendar.Always && len(u.Calendar.Allows) == 0 {
			t.Fatalf("policy %s is open without a window", u.Name)
		}
	}
	for _, f := range set.Freezes {
		alone := window.Calendar{Allows: []window.Window{f.Freeze.Window}}.At(at).Any()
		frozen := window.Calendar{Always: true, Freezes: []window.Freeze{f.Freeze}}.At(at).Any()
		if alone.Open && frozen.Open || frozen.Open && f.Freeze.Length() == 0 {
			t.Fatalf("freeze %s opens at %v", f.Freeze, at)
		}
	}
}

// inTime fails if reading takes longer than a commit can wait for, whenever it
// is tried: on a busy machine some tries are slow.
func inTime(t *testing.T, read func()) {
	t.Helper()
	const limit, tries = 50 * time.Millisecond, 10
	fastest := time.Hour
	for range tries {
		start := time.Now()
		read()
		if fastest = min(fastest, time.Since(start)); fastest <= limit || raceDetector {
			return
		}
	}
	t.Fatalf("takes %v", fastest)
}

// calendarOf is the text of the calendar that a document of a case names.
func calendarOf(archive *txtar.Archive, data []byte) string {
	var d Document
	if json.Unmarshal(data, &d.Object) != nil {
		return ""
	}
	return withCalendar(archive, d).Calendar
}

// FuzzInstant: a timestamp is read with its offset or reported in one line.
func FuzzInstant(f *testing.F) {
	for _, s := range []string{
		"2026-12-05T22:00:00+01:00", "2026-12-05T21:00:00Z", "2026-12-05T22:00:00", "2026-12-05", "2026-12-05 22:00:00Z", "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z", "2026-12-05T24:00:00Z", "2026-12-05T22:00:60Z", "2026-12-05T22:00:00.000000001z", "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := &report{}
		values := newFields(subject{report: r, file: "fuzz.yaml", object: "Freeze/f"}, "spec", map[string]any{"start": s})
		at, ok := values.instant("start")
		if s == "" {
			return // the caller says that it is required
		}
		if ok == (len(r.problems) > 0) || len(r.problems) > 1 {
			t.Fatalf("%q: ok %v, and %v", s, ok, r.problems)
		}
		if !ok {
			if line := r.problems[0].String(); strings.ContainsAny(line, "\r\n") || !at.IsZero() {
				t.Fatalf("%q: %q, %v", s, line, at)
			}
			return
		}
		zulu := strings.HasSuffix(strings.ToUpper(s), "Z")
		if _, offset := at.Zone(); zulu && offset != 0 || !zulu && !strings.ContainsAny(s[len(s)-6:len(s)-5], "+-") {
			t.Fatalf("%q is %v: where does its offset come from?", s, at)
		}
		if again, err := time.Parse(time.RFC3339Nano, at.Format(time.RFC3339Nano)); err != nil || !again.Equal(at) {
			t.Fatalf("%q is %v, again %v, %v", s, at, again, err)
		}
	})
}

// seeds are the documents of a section, as JSON.
func seeds(f *testing.F, section txtar.File) [][]byte {
	f.Helper()
	var out [][]byte
	for _, d := range documents(f, section) {
		data, err := json.Marshal(d.Object)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
