// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

func TestDescends(t *testing.T) {
	eachTransport(t, func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func()) {
		root := repo.Commit(t, "main", "root", files("root"))
		one := repo.Commit(t, "main", "one", files("one"))
		for i := range 5 {
			repo.Commit(t, "main", fmt.Sprint(i), files(fmt.Sprint(i)))
		}
		tip := repo.Head(t, "main")
		repo.SetRef(t, "refs/heads/side", root)
		side := repo.Commit(t, "side", "side", files("side"))
		merged := repo.Git(t, "-c", "user.name=a", "-c", "user.email=a", "commit-tree", "-p", tip, "-p", side, "-m", "merge", tip+"^{tree}")
		repo.Tag(t, "v1", merged)
		publish()
		descends := func(ref, from string, want bool) {
			t.Helper()
			o.Ref = ref
			s := newSource(t, o)
			fetch(t, s)
			got, err := s.Descends(t.Context(), from)
			if err != nil || got != want {
				t.Errorf("%s from %s: got %t, %v; want %t", ref, from, got, err, want)
			}
		}
		descends("main", tip, true)
		descends("main", one, true)
		descends("main", root, true)
		descends("main", side, false)
		descends("main", merged, false)
		descends("side", one, false)
		descends("v1", side, true)
		descends("v1", root, true)
		descends("v1", merged, true)
		descends("main", strings.Repeat("1", 40), false)

		repo.ForcePush(t, "main", one)
		publish()
		descends("main", tip, false) // rolled back
		descends("main", root, true)
		repo.Git(t, "config", "uploadpack.allowFilter", "false")
		repo.Git(t, "tag", "--delete", "v1")
		repo.Git(t, "gc", "--quiet", "--prune=now")
		publish()
		descends("main", tip, false) // and gone
		descends("main", root, true)
	})
}

func TestDescendsSaysWhyItCannotTell(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	one := repo.Commit(t, "main", "one", files("one"))
	repo.Commit(t, "main", "two", files("two"))
	s := newSource(t, gitsource.Options{URL: repo.URL()})
	fetch(t, s)
	server.Stop()
	if _, err := s.Descends(t.Context(), one); err == nil || err.Error() != repo.URL()+": dial: connect: connection refused" {
		t.Errorf("err = %v", err)
	}
}

// A server that cannot leave files out sends the whole history once more: that
// is kept where packs are kept, and not for longer than it is needed.
func TestDescendsKeepsHistoryInTheCache(t *testing.T) {
	repo := testkit.StartGit(t, testkit.GitOptions{}).Repo(t, "fleet")
	repo.Git(t, "config", "uploadpack.allowFilter", "false")
	one := repo.Commit(t, "main", "one", files("one"))
	two := repo.Commit(t, "main", "two", files("two"))
	cache := filepath.Join(t.TempDir(), "cache")
	s := newSource(t, gitsource.Options{URL: repo.URL(), Cache: cache})
	fetch(t, s)
	if ok, err := s.Descends(t.Context(), one); err != nil || !ok {
		t.Errorf("got %t, %v", ok, err)
	}
	if got := packsIn(t, cache); len(got) != 1 || got[0] != two+".pack" {
		t.Errorf("the cache holds %v", got)
	}
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Descends(t.Context(), one); err != nil || !ok {
		t.Errorf("without its cache: got %t, %v", ok, err)
	}
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Descends(t.Context(), one); err == nil || !strings.Contains(err.Error(), "cache "+cache) {
		t.Errorf("err = %v", err)
	}
}
