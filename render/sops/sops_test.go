// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"lamplighter.dev/render/sops"
)

// testKeys are those in testdata, which open nothing else.
func testKeys(t testing.TB, names ...string) sops.Keys {
	t.Helper()
	name := "keys"
	if len(names) == 1 {
		name = path.Join(name, names[0])
	}
	keys, err := sops.ReadKeys(os.DirFS("testdata"), name)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// encrypted is one case of testdata: a file that the library of SOPS 3.13.3
// encrypted, and what the same library decrypts it to. It begins with the creation
// rule by which testdata/remake makes it anew.
type encrypted struct {
	name       string
	data, want []byte
}

func readCase(t testing.TB, name string) encrypted {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) != 2 || archive.Files[1].Name != "sops decrypt" {
		t.Fatalf("%s: want a file and what sops decrypt prints", name)
	}
	return encrypted{archive.Files[0].Name, archive.Files[0].Data, archive.Files[1].Data}
}

func caseNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".txtar")
	}
	return files
}

func TestFilesOfSOPSAreRead(t *testing.T) {
	keys := testKeys(t)
	for _, name := range caseNames(t) {
		if name == "kms" {
			continue // which nothing here opens
		}
		t.Run(name, func(t *testing.T) {
			c := readCase(t, name)
			plain, values, err := keys.Decrypt(c.name, c.data)
			if err != nil {
				t.Fatal(err)
			}
			same(t, c.name, c.want, plain)
			if len(values) == 0 || bytes.Contains(plain, []byte("ENC[")) {
				t.Errorf("%d values, and this is left:\n%s", len(values), plain)
			}
		})
	}
}

// same compares two files: by their documents and comments if they are YAML,
// which may be written in many ways, and else as they are.
func same(t testing.TB, name string, want, got []byte) {
	t.Helper()
	if ext := path.Ext(name); ext != ".yaml" {
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("(-sops +ours):\n%s", diff)
		}
		return
	}
	if diff := cmp.Diff(documents(t, want), documents(t, got)); diff != "" {
		t.Errorf("(-sops +ours):\n%s\n%s", diff, got)
	}
	if diff := cmp.Diff(comments(t, want), comments(t, got)); diff != "" {
		t.Errorf("comments (-sops +ours):\n%s\n%s", diff, got)
	}
}

func documents(t testing.TB, data []byte) []any {
	t.Helper()
	var docs []any
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return docs
		case err != nil:
			t.Fatalf("%v:\n%s", err, data)
		}
		docs = append(docs, v)
	}
}

// comments are all lines of comments, sorted: where a comment between two
// values belongs is a matter of taste.
func comments(t testing.TB, data []byte) []string {
	t.Helper()
	var out []string
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for _, c := range []string{n.HeadComment, n.LineComment, n.FootComment} {
			if c != "" {
				out = append(out, strings.Split(c, "\n")...)
			}
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case errors.Is(err, io.EOF):
			slices.Sort(out)
			return out
		case err != nil:
			t.Fatal(err)
		}
		visit(&n)
	}
}

// Whatever a file holds, it is read as SOPS itself reads it.
func TestRandomFilesAreReadAsSOPSReadsThem(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "random", "samples.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	keys := testKeys(t, "age.agekey")
	for pair := range slices.Chunk(archive.Files, 2) {
		want, file := pair[0], pair[1]
		t.Run(file.Name, func(t *testing.T) {
			got, _, err := keys.Decrypt(file.Name, file.Data)
			if err != nil {
				t.Fatal(err)
			}
			same(t, file.Name, want.Data, got)
		})
	}
}

// A number or a time may be a secret as well as a text.
func TestValuesThatAreNoTextAreNamedToo(t *testing.T) {
	c := readCase(t, "whole")
	_, values, err := testKeys(t).Decrypt(c.name, c.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"42", "1.5", "2026-01-02T03:04:05Z"} {
		if !slices.Contains(values, want) {
			t.Errorf("%s is encrypted, and not among the values that are: %q", want, values)
		}
	}
}
