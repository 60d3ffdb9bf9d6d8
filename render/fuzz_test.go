// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"lamplighter.dev/render"
)

// FuzzBuild builds arbitrary small trees, written as archives. A build never
// panics, is the same twice, and its error is one line that shows no panic.
func FuzzBuild(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no cases", err)
	}
	for _, file := range files {
		c := readCase(f, file)
		f.Add(c.path, txtar.Format(c.archive))
	}
	f.Fuzz(func(t *testing.T, path string, archive []byte) {
		if len(archive) > 8<<10 {
			return
		}
		tree := fstest.MapFS{}
		for _, file := range txtar.Parse(archive).Files {
			tree[file.Name] = &fstest.MapFile{Data: file.Data}
		}
		first, err := render.Build(t.Context(), tree, path)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		second, err := render.Build(t.Context(), tree, path)
		if err != nil {
			t.Fatalf("the second build: %v", err)
		}
		if format(t, first) != format(t, second) {
			t.Error("two builds differ")
		}
	})
}
