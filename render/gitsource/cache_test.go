// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// packsIn are the files of a cache.
func packsIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCacheIsUsedAfterARestart(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", files("one"))
	options := gitsource.Options{URL: repo.URL(), Cache: filepath.Join(t.TempDir(), "made", "if missing")}
	fetch(t, newSource(t, options))
	if got := packsIn(t, options.Cache); len(got) != 1 || got[0] != hash+".pack" {
		t.Errorf("the cache holds %v", got)
	}
	if c := fetch(t, newSource(t, options)); c.Hash != hash || content(t, c, "dir/a.yaml") != "one" {
		t.Errorf("commit = %+v", c)
	}
	if got := server.Requests(); got != (testkit.GitRequests{Refs: 2, Packs: 1}) {
		t.Errorf("two agents made %+v", got)
	}
}

func TestCacheHoldsTheNewestCommitOnly(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	options := gitsource.Options{URL: repo.URL(), Cache: t.TempDir()}
	writeSecret(t, options.Cache, map[string]string{"notes.txt": "not ours", "incoming-7.pack": "left by one that was killed"})
	s := newSource(t, options)
	repo.Commit(t, "main", "one", files("one"))
	one := fetch(t, s)
	hash := repo.Commit(t, "main", "two", files("two"))
	fetch(t, s)
	if got := packsIn(t, options.Cache); len(got) != 2 || got[0] != hash+".pack" || got[1] != "notes.txt" {
		t.Errorf("the cache holds %v", got)
	}
	if content(t, one, "dir/a.yaml") != "one" {
		t.Error("a commit that is held is not readable once its pack is deleted")
	}
}

// Nobody is trusted to have left the cache as it was.
func TestCacheThatIsTamperedWith(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", files("one"))
	evil := server.Repo(t, "evil")
	evil.Commit(t, "main", "evil", files("evil"))
	options := gitsource.Options{URL: repo.URL(), Cache: t.TempDir()}
	fetch(t, newSource(t, options))
	pack := filepath.Join(options.Cache, hash+".pack")
	whole, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	other := gitsource.Options{URL: evil.URL(), Cache: t.TempDir()}
	evilHash := fetch(t, newSource(t, other)).Hash
	foreign, err := os.ReadFile(filepath.Join(other.Cache, evilHash+".pack"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{"empty": {}, "cut": whole[:len(whole)-30], "flipped": flipped, "another": foreign, "noise": []byte("PACK or not")} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(pack, content, 0o600); err != nil {
				t.Fatal(err)
			}
			wantContent(t, newSource(t, options), "one")
		})
	}
	t.Run("folder", func(t *testing.T) {
		if err := os.Remove(pack); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(pack, 0o700); err != nil {
			t.Fatal(err)
		}
		fetchError(t, newSource(t, options), "cache "+options.Cache+": file exists")
		if err := os.Remove(pack); err != nil {
			t.Fatal(err)
		}
		wantContent(t, newSource(t, options), "one")
	})
}

// Who can write to the cache can make files unreadable, and no more than that.
func TestCacheThatIsWrittenToWhileItIsRead(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", files(noise("one")))
	options := gitsource.Options{URL: repo.URL(), Cache: t.TempDir()}
	fetch(t, newSource(t, options))
	pack := filepath.Join(options.Cache, hash+".pack")
	whole, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	unreadable := 0
	for at := 12; at < len(whole); at += len(whole) / 40 {
		overwrite(t, pack, whole)
		c := fetch(t, newSource(t, options))
		broken := bytes.Clone(whole)
		broken[at] ^= 0xff
		overwrite(t, pack, broken)
		switch data, err := fs.ReadFile(c.Tree, "dir/a.yaml"); {
		case err != nil:
			unreadable++
		case string(data) != noise("one"):
			t.Fatalf("byte %d: other content is read", at)
		}
	}
	if unreadable == 0 {
		t.Error("nothing that was written came to be read")
	}
	if got := server.Requests().Packs; got != 1 {
		t.Errorf("%d packs were sent: the cache was not used", got)
	}
}

// overwrite changes a file in its place, for those who have it open.
func overwrite(t *testing.T, file string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, s *gitsource.Source, want string) {
	t.Helper()
	if got := content(t, fetch(t, s), "dir/a.yaml"); got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
}

func TestCacheThatIsDeletedAtAnyTime(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	options := gitsource.Options{URL: repo.URL(), Cache: filepath.Join(t.TempDir(), "cache")}
	s := newSource(t, options)
	one := fetch(t, s)
	if err := os.RemoveAll(options.Cache); err != nil {
		t.Fatal(err)
	}
	if content(t, one, "dir/a.yaml") != "one" {
		t.Error("the last good commit is not readable")
	}
	if again := fetch(t, s); again != one {
		t.Errorf("commit = %+v, want the same as before", again)
	}
	repo.Commit(t, "main", "two", files("two"))
	wantContent(t, s, "two")
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSource(t, gitsource.Options{URL: repo.URL(), Cache: file})
	fetchError(t, s, "cache "+file+": not a directory")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "one")
}
