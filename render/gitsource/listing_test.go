// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"pgregory.net/rapid"
)

// insert is the difference that makes a content of at most 127 bytes out of a
// base of any size.
func insert(base int, content string) []byte {
	d := append(uvarint(uint64(base)), uvarint(uint64(len(content)))...)
	return append(append(d, byte(len(content))), content...)
}

// However objects differ from one another, near or far, by place or by name, each
// is found and is what it was.
func TestDifferencesOfDifferences(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(r, "objects")
		contents, objects := make([]string, n), make([]packed, n)
		for i := range objects {
			contents[i] = fmt.Sprintf("object %d, %s", i, strings.Repeat("x", rapid.IntRange(0, 30).Draw(r, "padding")))
			objects[i] = packed{kind: plumbing.BlobObject, data: []byte(contents[i])}
			if i == 0 || rapid.IntRange(0, 4).Draw(r, "whole") == 0 {
				continue
			}
			base := rapid.IntRange(0, i-1).Draw(r, "base")
			objects[i] = packed{kind: plumbing.REFDeltaObject, data: insert(len(contents[base]), contents[i]), base: blob(contents[base])}
			if base == i-1 && rapid.Bool().Draw(r, "by place") {
				objects[i].kind = plumbing.OFSDeltaObject
			}
		}
		p, err := packs{}.add(t.Context(), plumbing.ZeroHash, bytes.NewReader(packOf(t, objects)), Limits{}.withDefaults())
		if err != nil {
			r.Fatal(err)
		}
		if count, err := p.index.Count(); err != nil || int(count) != n {
			r.Errorf("%d objects are found (%v), not %d", count, err, n)
		}
		for _, content := range contents {
			if text, err := textOf(p, blob(content)); err != nil || text != content {
				r.Errorf("got %q (%v), want %q", text, err, content)
			}
		}
	})
}

func blob(content string) plumbing.Hash {
	return plumbing.ComputeHash(plumbing.BlobObject, []byte(content))
}

// Objects may come before those that they name, and in any order.
func TestIndexOfObjectsOutOfOrder(t *testing.T) {
	const n = 30
	objects := make([]packed, n)
	last := ""
	for i := range objects {
		content := fmt.Sprintf("object %d", i)
		objects[i] = packed{kind: plumbing.REFDeltaObject, data: insert(len(last), content), base: blob(last)}
		if i == 0 {
			objects[i] = packed{kind: plumbing.BlobObject, data: []byte(content)}
		}
		last = content
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	p, err := packs{}.add(t.Context(), plumbing.ZeroHash, bytes.NewReader(packOf(t, objects)), Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		content := fmt.Sprintf("object %d", i)
		text, err := textOf(p, blob(content))
		if err != nil || text != content {
			t.Errorf("%s: got %q, %v", content, text, err)
		}
	}
}

func TestPacksThatDoNotAddUp(t *testing.T) {
	whole := packed{kind: plumbing.BlobObject, data: []byte("whole")}
	deep := []packed{whole}
	for range maxDepth + 1 {
		deep = append(deep, packed{kind: plumbing.OFSDeltaObject, data: insert(5, "whole")})
	}
	for name, objects := range map[string][]packed{
		"base is not there": {{kind: plumbing.REFDeltaObject, data: insert(5, "other"), base: plumbing.NewHash("1111111111111111111111111111111111111111")}},
		"base of itself":    {whole, {kind: plumbing.REFDeltaObject, data: insert(5, "other"), base: blob("other")}},
		"no base there":     {whole, {kind: plumbing.OFSDeltaObject, data: insert(5, "other"), miss: 1}},
		"larger base":       {whole, {kind: plumbing.OFSDeltaObject, data: insert(6, "other")}},
		"kind":              {{kind: 5, data: []byte("whole")}},
		"no kind":           {{kind: 0, data: []byte("whole")}},
		"too deep":          deep,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := packs{}.add(t.Context(), plumbing.ZeroHash, bytes.NewReader(packOf(t, objects)), Limits{}.withDefaults())
			if err == nil || err.Error() != "the server sends objects that are cut short or broken" {
				t.Errorf("err = %v", err)
			}
		})
	}
}
