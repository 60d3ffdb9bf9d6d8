// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/render"
)

// Files from Windows build the same; the lines of a generator's file stay as
// they are, for they are data.
func TestLinesThatEndInCRLF(t *testing.T) {
	files := map[string]string{
		"kustomization.yaml": "resources:\n- a.yaml\npatches:\n- path: patch.yaml\nconfigMapGenerator:\n- name: env\n  envs: [agent.env]\n",
		"a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: |\n    one\n    two\n",
		"patch.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  more: x\n",
		"agent.env":          "A=1\nB=2\n",
	}
	build := func(end string) string {
		tree := fstest.MapFS{}
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "\n", end))}
		}
		out, err := render.Build(t.Context(), tree, ".")
		if err != nil {
			t.Fatal(err)
		}
		return format(t, out)
	}
	if diff := cmp.Diff(build("\n"), build("\r\n")); diff != "" {
		t.Errorf("(-LF +CRLF):\n%s", diff)
	}
}

// A generator keeps bytes that are no text, and a file that ends in CRLF.
func TestGeneratedBytes(t *testing.T) {
	out, err := render.Build(t.Context(), fstest.MapFS{
		"kustomization.yaml": {Data: []byte("configMapGenerator: [{name: a, files: [bytes, windows.ini]}]")},
		"bytes":              {Data: []byte{0xff, 0xfe, 0}},
		"windows.ini":        {Data: []byte("a=b\r\n")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	content := out.Objects[0].Object
	want := map[string]any{"bytes": "//4A"}
	if diff := cmp.Diff(want, content["binaryData"]); diff != "" {
		t.Errorf("binaryData (-want +got):\n%s", diff)
	}
	want = map[string]any{"windows.ini": "a=b\r\n"}
	if diff := cmp.Diff(want, content["data"]); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}
