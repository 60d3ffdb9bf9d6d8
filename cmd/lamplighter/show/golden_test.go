// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/casefile"
)

// golden runs every case of a folder: a text archive whose comment says what it
// is about, with input files and the text that is wanted of them.
func golden(t *testing.T, kind string, text func(*testing.T, fixture) string) {
	t.Helper()
	casefile.Run(t, filepath.Join("testdata", kind, "*.txtar"), func(t *testing.T, given *txtar.Archive) txtar.File {
		return casefile.Want(text(t, fixture{given}))
	})
}

// fixture is one case.
type fixture struct{ archive *txtar.Archive }

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
