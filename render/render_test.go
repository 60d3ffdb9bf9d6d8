// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/render"
)

// Each case in testdata is a tree and what it renders to: the files, then
// either want or error. A line "path P" in the comment names the directory to
// build; the default is the root.
func TestCases(t *testing.T) {
	casefile.Run(t, cases, func(t *testing.T, given *txtar.Archive) txtar.File {
		c := caseOf(given)
		out, err := render.Build(t.Context(), c.tree, c.path)
		if err == nil {
			return casefile.Want(format(t, out))
		}
		if strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("the error is more than one line")
		}
		return casefile.Error(err.Error() + "\n")
	})
}

const cases = "testdata/*.txtar"

type testCase struct {
	tree fstest.MapFS
	path string
}

func readCase(t testing.TB, file string) testCase {
	t.Helper()
	given, _ := casefile.Read(t, file)
	return caseOf(given)
}

func caseOf(given *txtar.Archive) testCase {
	c := testCase{tree: fstest.MapFS{}, path: "."}
	for line := range strings.Lines(string(given.Comment)) {
		if p, ok := strings.CutPrefix(line, "path "); ok {
			c.path = strings.Trim(strings.TrimSpace(p), `"`)
		}
	}
	for _, f := range given.Files {
		c.tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return c
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
			fmt.Fprintf(&b, "# %s %s from %s, line %d\n%s---\n", list, o.OriginalName, o.File, o.Line, data)
		}
	}
	print("object", out.Objects)
	print("policy", out.Policies)
	return b.String()
}
