// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/render"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// Each case in testdata is a tree and what it renders to: the files, then
// either want or error. A line "path P" in the comment names the directory to
// build; the default is the root.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			c := readCase(t, file)
			out, err := render.Build(t.Context(), c.tree, c.path)
			got := txtar.File{Name: "want", Data: []byte(format(t, out))}
			if err != nil {
				got = txtar.File{Name: "error", Data: []byte(err.Error() + "\n")}
			}
			if *update {
				c.rewrite(t, file, got)
				return
			}
			if diff := cmp.Diff(c.want.Name+"\n"+string(c.want.Data), got.Name+"\n"+string(got.Data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("the error is more than one line")
			}
		})
	}
}

type testCase struct {
	archive *txtar.Archive
	tree    fstest.MapFS
	path    string
	want    txtar.File
}

func readCase(t testing.TB, file string) testCase {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := testCase{archive: archive, tree: fstest.MapFS{}, path: "."}
	for line := range strings.Lines(string(archive.Comment)) {
		if p, ok := strings.CutPrefix(line, "path "); ok {
			c.path = strings.Trim(strings.TrimSpace(p), `"`)
		}
	}
	for _, f := range archive.Files {
		if f.Name == "want" || f.Name == "error" {
			c.want = f
			continue
		}
		c.tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return c
}

func (c testCase) rewrite(t *testing.T, file string, got txtar.File) {
	t.Helper()
	var files []txtar.File
	for _, f := range c.archive.Files {
		if f.Name != "want" && f.Name != "error" {
			files = append(files, f)
		}
	}
	c.archive.Files = append(files, got)
	if err := os.WriteFile(file, txtar.Format(c.archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// format prints an output as YAML documents, each with its list, its file and
// the name it had there.
func format(t testing.TB, out render.Output) string {
	t.Helper()
	var b bytes.Buffer
	print := func(list string, objects []render.Object) {
		for _, o := range objects {
			data, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "# %s %s from %s\n%s---\n", list, o.OriginalName, o.File, data)
		}
	}
	print("object", out.Objects)
	print("policy", out.Policies)
	return b.String()
}
