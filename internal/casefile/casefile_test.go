// SPDX-License-Identifier: Apache-2.0

package casefile

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var pattern = flag.String("pattern", "testdata/*.txt", "the files that TestUpper plays")

// TestUpper is a runner as packages have it; TestUpdate plays it on other files.
func TestUpper(t *testing.T) {
	Run(t, *pattern, func(t *testing.T, given *txtar.Archive) txtar.File {
		text := string(given.Files[0].Data)
		if strings.HasPrefix(text, "-") {
			return Error("not a word\n")
		}
		return Want(strings.ToUpper(text))
	})
}

func TestUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "case.txt")
	upper := func(args ...string) (string, error) {
		args = append([]string{"-test.run=^TestUpper$", "-pattern=" + file}, args...)
		out, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
		return string(out), err
	}
	for _, tt := range []struct{ given, wanted, said string }{
		{"-- in --\na\n", "-- in --\na\n-- want --\nA\n", "does not end with a section want or error"},
		{"-- in --\na\n-- want --\nB\n", "-- in --\na\n-- want --\nA\n", "-want +got"},
		{"-- in --\n-a\n-- want --\nA\n", "-- in --\n-a\n-- error --\nnot a word\n", "-want +got"},
	} {
		if err := os.WriteFile(file, []byte(tt.given), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := upper(); err == nil || !strings.Contains(out, tt.said) {
			t.Errorf("%q passed, or did not say %q: %s", tt.given, tt.said, out)
		}
		if out, err := upper("-update"); err != nil {
			t.Fatalf("%q, -update: %s", tt.given, out)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != tt.wanted {
			t.Errorf("%q became %q, want %q (%v)", tt.given, data, tt.wanted, err)
		}
		if out, err := upper(); err != nil {
			t.Errorf("%q does not pass after -update: %s", tt.given, out)
		}
	}
}
