// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package's folder.
const root = "../.."

// module is the path of the main module.
const module = "lamplighter.dev"

// problem is one broken rule: where, and what to do about it.
type problem struct {
	File string // slash separated, from the root
	Line int    // 0 when it is about the file as a whole
	What string
}

func (p problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.What)
}

// report fails the test with every problem.
func report(t *testing.T, problems []problem) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// wantProblems fails the test unless the problems are the wanted ones, in order.
func wantProblems(t *testing.T, got []problem, want ...string) {
	t.Helper()
	var lines []string
	for _, p := range got {
		lines = append(lines, p.String())
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got problems\n  %s\nwant\n  %s", strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
	}
}

// file is one file of the repository.
type file struct {
	Path string // slash separated, from the root
	Text string
}

// files reads every file whose name ends in one of the suffixes, in all
// modules of the repository. What git ignores is not part of it.
func files(t *testing.T, suffixes ...string) []file {
	t.Helper()
	var found []file
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin" || path == ".sandbox" || path == ".demo"):
			return fs.SkipDir
		case d.IsDir() || !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		found = append(found, file{Path: path, Text: string(text)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no file ends in %v: is %q still the repository?", suffixes, root)
	}
	return found
}

// exists tells whether the repository has a file or folder of that path.
func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
	return err == nil
}

// read answers with one file's text.
func read(t *testing.T, path string) file {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return file{Path: path, Text: string(text)}
}
