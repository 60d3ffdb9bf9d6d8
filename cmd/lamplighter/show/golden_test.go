// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite what the tests compare with")

// golden runs every case of a folder: a text archive whose comment says what it
// is about, with input files and the text that is wanted of them.
func golden(t *testing.T, kind string, text func(*testing.T, fixture) string) {
	t.Helper()
	cases, err := filepath.Glob(filepath.Join("testdata", kind, "*.txtar"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases in testdata/%s (%v)", kind, err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			f := readFixture(t, name)
			got := text(t, f)
			if *update {
				f.rewrite(t, name, got)
				return
			}
			if diff := cmp.Diff(f.get("want"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fixture is one case.
type fixture struct{ archive *txtar.Archive }

func readFixture(t *testing.T, name string) fixture {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{archive}
}

func (f fixture) get(name string) string {
	for _, file := range f.archive.Files {
		if file.Name == name {
			return string(file.Data)
		}
	}
	return ""
}

// decode reads an input file into v; a file that is missing leaves it as it is.
func (f fixture) decode(t *testing.T, name string, v any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(f.get(name)), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func (f fixture) rewrite(t *testing.T, name, want string) {
	t.Helper()
	f.archive.Files = slices.DeleteFunc(f.archive.Files, func(file txtar.File) bool { return file.Name == "want" })
	f.archive.Files = append(f.archive.Files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(name, txtar.Format(f.archive), 0o600); err != nil {
		t.Fatal(err)
	}
}
