// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

const childURL, childCache = "GITSOURCE_TEST_URL", "GITSOURCE_TEST_CACHE"

// TestMain lets the test binary be the process whose memory a test measures.
func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := fetchOnce(url, os.Getenv(childCache)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.Sys) // never less than before
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fetchOnce does what an agent does with a large repository: it lists all and
// reads little.
func fetchOnce(url, cache string) error {
	s, err := gitsource.New(gitsource.Options{URL: url, Cache: cache})
	if err != nil {
		return err
	}
	c, err := s.Fetch(context.Background())
	if err != nil {
		return err
	}
	if _, err := fs.ReadFile(c.Tree, "dir/a.yaml"); err != nil {
		return err
	}
	return fs.WalkDir(c.Tree, ".", func(_ string, _ fs.DirEntry, err error) error { return err })
}

// fetchApart fetches in a process of its own, and answers what that prints.
func fetchApart(t *testing.T, url string, environment ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childURL+"="+url), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// peak is the most memory that a process got from the system for one fetch, in
// bytes.
func peak(t *testing.T, url string) int64 {
	t.Helper()
	out, err := fetchApart(t, url, childCache+"="+t.TempDir())
	if err != nil {
		t.Fatalf("fetch in a process of its own: %v\n%s", err, out)
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// A repository that holds much, and held as much before, costs little memory:
// its history is not asked for, and its files stay in the cache's pack.
func TestLargeRepositoryCostsLittleMemory(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	small, large := server.Repo(t, "small"), server.Repo(t, "large")
	small.Commit(t, "main", "one", files("one"))
	large.Config(t, "core.compression", "0")
	large.Config(t, "pack.compression", "0")
	large.Config(t, "core.bigFileThreshold", "1k") // no search for what files have in common
	const size = 64 << 20
	for version := range uint64(2) {
		tree := files("large")
		chunk := make([]byte, 1<<20)
		random := rand.NewChaCha8([32]byte{byte(version)})
		for i := range size / len(chunk) {
			_, _ = random.Read(chunk)
			tree[fmt.Sprintf("blobs/%d", i)] = string(chunk)
		}
		large.Commit(t, "main", fmt.Sprint("version ", version), tree)
	}
	few, many := peak(t, small.URL()), peak(t, large.URL())
	t.Logf("peak memory: %d MiB for a small repository, %d MiB for one of %d MiB", few>>20, many>>20, size>>20)
	if many > 150<<20 || many-few > size/2 {
		t.Errorf("fetching %d MiB costs %d MiB of memory", size>>20, (many-few)>>20)
	}
}

// A commit that was sent as little and holds much, as differences of one file to
// the next, costs the memory of a few files.
func TestFilesThatAreSentAsDifferencesCostLittleMemory(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "alike")
	const count, size = 160, 1 << 20
	file := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(file)
	tree := files("alike")
	for i := range count {
		copy(file[i*1000:], fmt.Sprintf("change %d", i))
		tree[fmt.Sprintf("blobs/%03d", i)] = string(file)
	}
	repo.Commit(t, "main", "one", tree) // git packs each file as the difference to the last
	used := peak(t, repo.URL())
	t.Logf("peak memory: %d MiB for %d MiB of files that are alike", used>>20, count*size>>20)
	if used > 80<<20 {
		t.Errorf("files of 1 MiB that are alike cost %d MiB of memory", used>>20)
	}
}
