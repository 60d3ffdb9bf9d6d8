// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones must not depend on the machine

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/check"
)

// caseNow is when every case is checked.
var caseNow = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

// TestCases checks the fleets in testdata. A case is a tree, whose root is what
// is rendered, and the findings it has.
func TestCases(t *testing.T) {
	casefile.Run(t, caseFiles, func(t *testing.T, given *txtar.Archive) txtar.File {
		return casefile.Want(findings(t, given))
	})
}

const caseFiles = "testdata/*.txtar"

// TestEveryCheckHasACase: the file named after a check has a finding of it.
func TestEveryCheckHasACase(t *testing.T) {
	for _, c := range check.All() {
		_, want := casefile.Read(t, filepath.Join("testdata", string(c.ID)+".txtar"))
		if found := regexp.MustCompile("(?m)^" + string(c.Level) + " +" + string(c.ID) + " "); !found.Match(want.Data) {
			t.Errorf("testdata/%s.txtar has no %s of that id", c.ID, c.Level)
		}
	}
}

// TestOrderDoesNotMatter: objects and policies in any order have the same
// findings.
func TestOrderDoesNotMatter(t *testing.T) {
	for _, name := range casefile.Files(t, caseFiles) {
		archive, _ := casefile.Read(t, name)
		seen, err := examine(t, archive)
		if err != nil {
			continue
		}
		fleet := check.Fleet{Objects: seen.Objects, Policies: seen.Policies, Set: seen.Set, Problems: seen.Problems}
		want := check.Run(fleet)
		slices.Reverse(fleet.Objects)
		slices.Reverse(fleet.Policies)
		slices.Reverse(fleet.Problems)
		if diff := cmp.Diff(want, check.Run(fleet)); diff != "" {
			t.Errorf("%s: (-forward +backward)\n%s", name, diff)
		}
	}
}

const page = "../../docs/checks.md"

// TestPageListsTheChecks holds docs/checks.md and the checks together: each has
// one section, under the level it has, and the page names no other.
func TestPageListsTheChecks(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]check.Level{"Errors": check.Error, "Warnings": check.Warning, "Infos": check.Info}
	documented := map[check.ID]check.Level{}
	var level check.Level
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			level = levels[heading]
		}
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			id := check.ID(strings.Trim(heading, "`"))
			if _, twice := documented[id]; twice {
				t.Errorf("%s has two sections", id)
			}
			documented[id] = level
		}
	}
	for _, c := range check.All() {
		if documented[c.ID] != c.Level {
			t.Errorf("%s is of level %s, and %s has it under %q", c.ID, c.Level, page, documented[c.ID])
		}
		delete(documented, c.ID)
		if c.Binding != strings.Contains(section(string(text), c.ID), "It cannot be ignored.") {
			t.Errorf("%s: the page is wrong on whether it can be ignored", c.ID)
		}
	}
	for id := range documented {
		t.Errorf("%s has a section and is no check", id)
	}
}

// section is the text of the page on one check, in one line.
func section(text string, id check.ID) string {
	_, after, _ := strings.Cut(text, "### `"+string(id)+"`\n")
	body, _, _ := strings.Cut(after, "\n#")
	return strings.Join(strings.Fields(body), " ")
}

// fleetDocuments are the YAML documents of a case.
func fleetDocuments(t testing.TB, name string) []string {
	t.Helper()
	archive, _ := casefile.Read(t, name)
	for _, f := range archive.Files {
		if f.Name == "fleet.yaml" {
			return strings.Split(string(f.Data), "---\n")
		}
	}
	return nil
}

func examine(t *testing.T, archive *txtar.Archive) (reconcile.Examination, error) {
	t.Helper()
	tree, err := txtar.FS(archive)
	if err != nil {
		t.Fatal(err)
	}
	return reconcile.Examine(t.Context(), tree, ".", caseNow)
}

// findings is the want section of a case.
func findings(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	var report check.Report
	if seen, err := examine(t, archive); err != nil {
		report = check.Unreadable(err)
	} else {
		report = check.Run(check.Fleet{Objects: seen.Objects, Policies: seen.Policies, Set: seen.Set, Problems: seen.Problems})
	}
	var b bytes.Buffer
	for _, f := range report.Findings {
		fmt.Fprintf(&b, "%s %s %s | %s | %s\n  %s\n", f.Level, f.ID, f.File, f.Object, f.Field, f.Message)
	}
	fmt.Fprintf(&b, "%d ignored\n", report.Ignored)
	return b.String()
}
