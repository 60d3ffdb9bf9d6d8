// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"lamplighter.dev/render"
)

// FuzzBuild builds arbitrary small trees, written as archives. A build never
// panics, ends soon, is the same twice, and its error is one line that shows no panic.
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		first, err := render.Build(ctx, tree, path)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		second, err := render.Build(ctx, tree, path)
		if err != nil {
			t.Fatalf("the second build: %v", err)
		}
		if format(t, first) != format(t, second) {
			t.Error("two builds differ")
		}
	})
}
