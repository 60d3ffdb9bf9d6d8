// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// manifests is a fleet repository of n files.
func manifests(n int, version string) map[string]string {
	tree := map[string]string{}
	for i := range n {
		tree[fmt.Sprintf("agents/agent-%d/%d.yaml", i%20, i)] = fmt.Sprintf("# %d %s\n%s", i, version, strings.Repeat("key: value\n", 40))
	}
	return tree
}

// fetchTwoWays has a commit of n files ready with this package, and in a folder
// with git, which has what is older already.
type fetchTwoWays struct {
	repo  *testkit.GitRepo
	clone string
	next  int
}

func newFetchTwoWays(t testing.TB, n int) *fetchTwoWays {
	t.Helper()
	repo := testkit.StartGit(t, testkit.GitOptions{}).Repo(t, "fleet")
	repo.Commit(t, "main", "first", manifests(n, "first"))
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, "clone", "--quiet", "--depth=1", repo.URL(), clone)
	return &fetchTwoWays{repo: repo, clone: clone}
}

func (f *fetchTwoWays) commit(t testing.TB) {
	t.Helper()
	f.next++
	f.repo.Commit(t, "main", "next", manifests(20, fmt.Sprint(f.next)))
}

func (f *fetchTwoWays) ours(t testing.TB, s *gitsource.Source) time.Duration {
	t.Helper()
	start := time.Now()
	c := fetch(t, s)
	if err := fs.WalkDir(c.Tree, ".", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func (f *fetchTwoWays) gits(t testing.TB) time.Duration {
	t.Helper()
	start := time.Now()
	git(t, "-C", f.clone, "fetch", "--quiet", "--depth=1", "origin", "main")
	git(t, "-C", f.clone, "reset", "--quiet", "--hard", "FETCH_HEAD")
	return time.Since(start)
}

// A commit of a thousand files is ready in about the time that git takes, both
// measured here and now: the best of some tries, since the machine does other
// things too.
func TestFetchIsAboutAsFastAsGit(t *testing.T) {
	f := newFetchTwoWays(t, 1000)
	s := newSource(t, gitsource.Options{URL: f.repo.URL(), Cache: t.TempDir()})
	ours, gits := time.Hour, time.Hour
	for range 5 {
		f.commit(t)
		ours, gits = min(ours, f.ours(t, s)), min(gits, f.gits(t))
	}
	t.Logf("commit of 1,000 files: ready in %s, git takes %s", ours, gits)
	slower := time.Duration(4)
	if raceDetector { // which git runs without
		slower = 40
	}
	if ours > slower*gits {
		t.Errorf("ready in %s, git takes %s", ours, gits)
	}
}

func BenchmarkFetch(b *testing.B) {
	f := newFetchTwoWays(b, 1000)
	for _, cache := range []string{"", b.TempDir()} {
		name := map[bool]string{true: "in memory", false: "in a cache"}[cache == ""]
		b.Run("new commit of 1,000 files "+name, func(b *testing.B) {
			s := newSource(b, gitsource.Options{URL: f.repo.URL(), Cache: cache})
			for b.Loop() {
				b.StopTimer()
				f.commit(b)
				b.StartTimer()
				f.ours(b, s)
			}
		})
	}
	b.Run("new commit of 1,000 files with git", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			f.commit(b)
			b.StartTimer()
			f.gits(b)
		}
	})
	b.Run("unmoved", func(b *testing.B) {
		s := newSource(b, gitsource.Options{URL: f.repo.URL()})
		for b.Loop() {
			fetch(b, s)
		}
	})
}
