// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/render"
)

// FuzzBuild builds arbitrary small trees, written as archives. A build never
// panics, ends soon, is the same twice, and its error is one line that shows no panic.
func FuzzBuild(f *testing.F) {
	for _, file := range casefile.Files(f, cases) {
		given, _ := casefile.Read(f, file)
		f.Add(caseOf(given).path, txtar.Format(given))
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
