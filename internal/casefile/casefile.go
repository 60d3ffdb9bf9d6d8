// SPDX-License-Identifier: Apache-2.0

// Package casefile runs test cases that are text files a person can read: an
// archive of what is given, and as its last section what is wanted of it.
package casefile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// Update is the flag -update: what is wanted is rewritten with what was got.
var Update = flag.Bool("update", false, "rewrite what the case files want")

// Run plays every file of the pattern as a subtest. What is given has no wanted
// section; the answer is one: [Want], or [Error] if that is what comes of it.
func Run(t *testing.T, pattern string, answer func(t *testing.T, given *txtar.Archive) txtar.File) {
	t.Helper()
	for _, file := range Files(t, pattern) {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			given, want := Read(t, file)
			got := answer(t, given)
			if *Update {
				given.Files = append(given.Files, got)
				if err := os.WriteFile(file, txtar.Format(given), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(text(want), text(got)); diff != "" {
				t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
			}
		})
	}
}

// Want and Error are the sections that say what is wanted.
func Want(text string) txtar.File  { return txtar.File{Name: "want", Data: []byte(text)} }
func Error(text string) txtar.File { return txtar.File{Name: "error", Data: []byte(text)} }

func text(f txtar.File) string { return f.Name + "\n" + string(f.Data) }

// Files are the files of a pattern, of which there must be some.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files %s (%v)", pattern, err)
	}
	return files
}

// Read parts a file into what is given and what is wanted. A file that wants
// nothing yet is a case only with -update.
func Read(t testing.TB, file string) (given *txtar.Archive, want txtar.File) {
	t.Helper()
	given, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := len(given.Files) - 1
	switch {
	case n >= 0 && (given.Files[n].Name == "want" || given.Files[n].Name == "error"):
		want, given.Files = given.Files[n], given.Files[:n:n]
	case !*Update:
		t.Fatalf("%s does not end with a section want or error; -update writes it", file)
	}
	return given, want
}
