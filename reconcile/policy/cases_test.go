// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones must not depend on the machine

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/casefile"
)

// TestCases runs the catalogue in testdata: the sections of a case are the
// DaemonSets of a fleet, its files, and what Parse says of them. All files are
// taken as of 2026-01-15T12:00:00Z.
func TestCases(t *testing.T) {
	casefile.Run(t, "testdata/*.txt", func(t *testing.T, given *txtar.Archive) txtar.File {
		return casefile.Want(answer(t, given))
	})
}

var caseNow = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

// answer is what the want section of a case holds: the problems, then, if none
// is an error, the set in short.
func answer(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	docs, daemonSets := fleet(t, archive)
	set, problems := Parse(docs, daemonSets, caseNow)
	var b strings.Builder
	failed := false
	for _, p := range problems {
		fmt.Fprintf(&b, "%s %s\n", p.Level, p)
		failed = failed || p.Level == Error
	}
	if !failed {
		b.WriteString(summary(set))
	}
	return b.String()
}

// withCalendar reads the calendar that a document names from the case.
func withCalendar(archive *txtar.Archive, d Document) Document {
	name := CalendarOf(d.Object)
	for _, f := range archive.Files {
		if f.Name == name {
			d.Calendar = string(f.Data)
			return d
		}
	}
	if name != "" {
		d.CalendarFault = name + ": does not exist"
	}
	return d
}

func fleet(t *testing.T, archive *txtar.Archive) (docs []Document, daemonSets []DaemonSet) {
	t.Helper()
	for _, f := range archive.Files {
		switch {
		case f.Name == "daemonsets":
			for line := range strings.Lines(string(f.Data)) {
				daemonSets = append(daemonSets, daemonSet(t, strings.Fields(line)))
			}
		case !strings.HasSuffix(f.Name, ".ics"):
			for _, d := range documents(t, f) {
				docs = append(docs, withCalendar(archive, d))
			}
		}
	}
	return docs, daemonSets
}

// daemonSet reads "namespace/name strategy key=value…"; the key "original" is
// the name in the file.
func daemonSet(t *testing.T, words []string) DaemonSet {
	t.Helper()
	if len(words) < 2 {
		t.Fatalf("a DaemonSet is %q", words)
	}
	namespace, name, _ := strings.Cut(words[0], "/")
	ds := DaemonSet{
		Name:         types.NamespacedName{Namespace: namespace, Name: name},
		OriginalName: name, Labels: map[string]string{}, UpdateStrategy: words[1], File: "agents.yaml",
	}
	if ds.UpdateStrategy == "-" {
		ds.UpdateStrategy = ""
	}
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		if key == "original" {
			ds.OriginalName = value
		} else {
			ds.Labels[key] = value
		}
	}
	return ds
}

// documents reads the YAML documents of a file. The annotation "original" gives
// the name before it was renamed.
func documents(t testing.TB, f txtar.File) []Document {
	t.Helper()
	var docs []Document
	for text := range bytes.SplitSeq(f.Data, []byte("\n---\n")) {
		d := Document{File: f.Name}
		if err := yaml.Unmarshal(text, &d.Object); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		metadata, _ := d.Object["metadata"].(map[string]any)
		d.OriginalName, _ = metadata["name"].(string)
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			d.OriginalName, _ = annotations["original"].(string)
		}
		docs = append(docs, d)
	}
	return docs
}

func summary(s Set) string {
	var b strings.Builder
	for _, w := range s.Windows {
		fmt.Fprintf(&b, "window %s: %s%s\n", w.Name, w.Window, selectorNote(w))
	}
	for _, f := range s.Freezes {
		fmt.Fprintf(&b, "freeze %s: %s, %s", f.Name, f.Freeze, f.Scope)
		if len(f.Policies) > 0 {
			fmt.Fprintf(&b, " of %s", strings.Join(f.Policies, ", "))
		}
		if f.Freeze.Reason != "" {
			fmt.Fprintf(&b, " (%s)", f.Freeze.Reason)
		}
		b.WriteString("\n")
	}
	for _, u := range s.Upgrades {
		fmt.Fprintf(&b, "policy %s: %v\n", u.Name, u.DaemonSets)
		fmt.Fprintf(&b, "  windows %v always %v freezes %d templates %s\n", u.WindowNames, u.Calendar.Always, len(u.Calendar.Freezes), u.Templates)
		fmt.Fprintf(&b, "  maxUnavailable %s maxFailures %d onFailure %s\n", u.MaxUnavailable.String(), u.MaxFailures, u.OnFailure)
		for _, w := range u.Waves {
			fmt.Fprintf(&b, "  wave %s: %s, maxUnavailable %s soak %s\n", w.Name, waveNodes(w), w.MaxUnavailable.String(), w.Soak)
			for _, g := range w.Gates {
				fmt.Fprintf(&b, "    gate %+v\n", g)
			}
		}
		if u.Drain != nil {
			fmt.Fprintf(&b, "  drain %+v\n", *u.Drain)
		}
		for _, g := range u.Gates {
			fmt.Fprintf(&b, "  gate %+v\n", g)
		}
		if u.Topology != (Topology{}) {
			fmt.Fprintf(&b, "  topology %s maxDomains %d\n", u.Topology.Key, u.Topology.MaxDomains)
		}
		if u.CordonedNodes != Skip {
			fmt.Fprintf(&b, "  cordonedNodes %s\n", u.CordonedNodes)
		}
		fmt.Fprintf(&b, "  minReady %ds ready %s termination %s visit %s\n", u.MinReadySeconds, u.ReadyTimeout, u.TerminationTimeout, u.VisitDuration)
	}
	return b.String()
}

func selectorNote(w MaintenanceWindow) string {
	if w.Window.Selector == nil {
		return ""
	}
	return " for nodes " + w.Window.Selector.String()
}

func waveNodes(w Wave) string {
	if w.Selector == nil {
		return "all other nodes"
	}
	return "nodes " + w.Selector.String()
}
