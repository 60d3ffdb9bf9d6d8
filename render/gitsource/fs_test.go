// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

func inTest() treeOptions {
	return treeOptions{when: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), files: &quota{limit: 200_000}}
}

// rawEntry is an entry of a tree object, as harmful as it likes.
type rawEntry struct {
	name    string
	mode    filemode.FileMode
	content string
	folder  []rawEntry
}

func file(name, content string) rawEntry {
	return rawEntry{name: name, mode: filemode.Regular, content: content}
}

func link(name, target string) rawEntry {
	return rawEntry{name: name, mode: filemode.Symlink, content: target}
}

func folder(name string, entries ...rawEntry) rawEntry {
	return rawEntry{name: name, mode: filemode.Dir, folder: entries}
}

// makeTree writes a tree object as it stands: entries are neither sorted nor
// checked.
func makeTree(t testing.TB, store looseObjects, entries []rawEntry) plumbing.Hash {
	t.Helper()
	var data strings.Builder
	for _, e := range entries {
		var hash plumbing.Hash
		switch e.mode {
		case filemode.Dir:
			hash = makeTree(t, store, e.folder)
		case filemode.Submodule:
			hash = plumbing.NewHash("0123456789012345678901234567890123456789")
		default:
			hash = put(t, store, plumbing.BlobObject, e.content)
		}
		data.WriteString(strings.TrimLeft(e.mode.String(), "0") + " " + e.name + "\x00" + string(hash[:]))
	}
	return put(t, store, plumbing.TreeObject, data.String())
}

func put(t testing.TB, store looseObjects, kind plumbing.ObjectType, content string) plumbing.Hash {
	t.Helper()
	o := new(plumbing.MemoryObject)
	o.SetType(kind)
	if _, err := o.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	store[o.Hash()] = o
	return o.Hash()
}

func newTree(t testing.TB, entries ...rawEntry) *tree {
	t.Helper()
	store := looseObjects{}
	tr, err := readTree(t.Context(), store, makeTree(t, store, entries), inTest())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestTreeIsAFileSystem(t *testing.T) {
	tr := newTree(t,
		file("README.md", "hello"),
		rawEntry{name: "run.sh", mode: filemode.Executable, content: "#!/bin/sh"},
		file("empty", ""),
		folder("agents", file("a.yaml", "a"), folder("deep", file("b.yaml", "b"), link("up.yaml", "../a.yaml"))),
		link("current", "agents/deep"),
		link("again", "current/../a.yaml"),
	)
	if err := fstest.TestFS(tr, "README.md", "run.sh", "agents/deep/b.yaml", "empty", "current"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"current/b.yaml":      "b",
		"current/up.yaml":     "a",
		"agents/deep/up.yaml": "a",
		"again":               "a",
	} {
		if data, err := fs.ReadFile(tr, name); err != nil || string(data) != want {
			t.Errorf("%s = %q, %v; want %q", name, data, err, want)
		}
	}
	for _, name := range []string{"README.md", "run.sh"} {
		if info, err := fs.Stat(tr, name); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v; want a regular file", name, info.Mode(), err)
		}
	}
}

func TestPathsThatLeadNowhere(t *testing.T) {
	tr := newTree(t,
		link("absolute", "/etc/passwd"),
		link("outside", "../etc/passwd"),
		link("winding", "sub/../../etc/passwd"),
		link("loop", "loop"),
		link("dangling", "missing"),
		folder("sub", link("out", "../.."), file("f", "f")),
		rawEntry{name: "module", mode: filemode.Submodule},
		file("large.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
		link("lead", "large.yaml"),
	)
	for name, want := range map[string]string{
		"absolute":    "symbolic link absolute -> /etc/passwd escapes from the repository",
		"outside":     "symbolic link outside -> ../etc/passwd escapes from the repository",
		"winding":     "symbolic link winding -> sub/../../etc/passwd escapes from the repository",
		"sub/out":     "symbolic link sub/out -> ../.. escapes from the repository",
		"loop":        "too many levels of symbolic links",
		"module":      "open module: is a submodule, which is fetched with --submodules only",
		"module/file": "is in a submodule, which is fetched with --submodules only",
		"large.yaml":  "open large.yaml: is a pointer of Git LFS, which is not fetched: commit the file itself",
		"lead":        "is a pointer of Git LFS",
	} {
		if _, err := tr.Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v, want %q", name, err, want)
		}
	}
	if _, err := fs.ReadFile(tr, "sub"); err == nil {
		t.Error("a folder is read as a file")
	}
	if _, err := fs.ReadDir(tr, "sub/f"); err == nil {
		t.Error("a file is read as a folder")
	}
	if target, err := fs.ReadLink(tr, "outside"); err != nil || target != "../etc/passwd" {
		t.Errorf("link = %q, %v", target, err)
	}
	for _, name := range []string{"missing", "dangling", "sub/f/g", "sub/missing"} {
		if _, err := tr.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: %v, want not exist", name, err)
		}
	}
	for _, name := range []string{"", "/sub", "sub/../sub", "sub/"} {
		if _, err := tr.Open(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("open %q: %v, want invalid", name, err)
		}
	}
}

func TestLongLinksAreRefused(t *testing.T) {
	store := looseObjects{}
	hash := makeTree(t, store, []rawEntry{folder("deep", link("far", strings.Repeat("../", 2000)))})
	if _, err := readTree(t.Context(), store, hash, inTest()); err == nil || err.Error() != "deep/far: a symbolic link of more than 4 KiB" {
		t.Errorf("err = %v", err)
	}
}

// Git makes no such trees, but anybody can write one and push it.
func TestHarmfulNamesAreLeftOut(t *testing.T) {
	tr := newTree(t,
		file("b", "b"), file("a", "first"), file("a", "second"),
		file("..", "up"), file(".", "here"), file("x/y", "slash"),
		folder("..", file("f", "f")),
	)
	entries, err := fs.ReadDir(tr, ".")
	if err != nil || len(entries) != 2 || entries[0].Name() != "a" || entries[1].Name() != "b" {
		t.Errorf("entries %v, %v; want a and b", entries, err)
	}
	if err := fstest.TestFS(tr, "a", "b"); err != nil {
		t.Error(err)
	}
}

func TestTreeThatMultipliesIsRefused(t *testing.T) {
	store := looseObjects{}
	level := []rawEntry{file("f", "f")}
	hash := makeTree(t, store, level)
	for range 6 { // ten times ten times ...
		var data strings.Builder
		for _, name := range strings.Split("abcdefghij", "") {
			data.WriteString("40000 " + name + "\x00" + string(hash[:]))
		}
		hash = put(t, store, plumbing.TreeObject, data.String())
	}
	_, err := readTree(t.Context(), store, hash, inTest())
	if err == nil || !strings.Contains(err.Error(), "more than 200000 files") {
		t.Errorf("err = %v", err)
	}
}

func TestIncompleteObjectsAreAnError(t *testing.T) {
	store := looseObjects{}
	hash := put(t, store, plumbing.TreeObject, "100644 a\x00"+strings.Repeat("x", 20))
	if _, err := readTree(t.Context(), store, hash, inTest()); !errors.Is(err, plumbing.ErrObjectNotFound) || !strings.HasPrefix(err.Error(), "a: ") {
		t.Errorf("err = %v, want a: object not found", err)
	}
	hash = put(t, store, plumbing.TreeObject, "garbage")
	if _, err := readTree(t.Context(), store, hash, inTest()); !errors.Is(err, object.ErrMalformedTree) {
		t.Errorf("err = %v, want malformed", err)
	}
}

func TestTreeIsReadConcurrently(t *testing.T) {
	tr := newTree(t, folder("a", file("b", "b"), link("c", "b")), link("d", "a"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := fs.WalkDir(tr, ".", func(name string, _ fs.DirEntry, err error) error { return err }); err != nil {
				t.Error(err)
			}
			if data, err := fs.ReadFile(tr, "d/c"); err != nil || string(data) != "b" {
				t.Error(string(data), err)
			}
		})
	}
	wg.Wait()
}
