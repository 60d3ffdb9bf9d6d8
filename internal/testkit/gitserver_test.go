// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/internal/testkit"
)

func TestCloneSeesWhatWasCommitted(t *testing.T) {
	repo := testkit.StartGit(t, testkit.GitOptions{}).Repo(t, "fleet")
	first := repo.Commit(t, "main", "one", map[string]string{"a.yaml": "a: 1\n", "deep/b \"c\".yaml": "b"})
	repo.Commit(t, "main", "two", map[string]string{"a.yaml": "a: 2\n"})

	dir := clone(t, repo.URL())
	if got, want := read(t, dir, "a.yaml"), "a: 2\n"; got != want {
		t.Errorf("a.yaml: got %q, want %q", got, want)
	}
	if got, want := read(t, dir, `deep/b "c".yaml`), "b"; got != want {
		t.Errorf("deep file: got %q, want %q", got, want)
	}
	if got, want := git(t, dir, "rev-parse", "HEAD"), repo.Head(t, "main"); got != want {
		t.Errorf("HEAD: got %s, want %s", got, want)
	}
	if got := git(t, dir, "rev-parse", "HEAD~1"); got != first {
		t.Errorf("HEAD~1: got %s, want %s", got, first)
	}
}

func TestHistoryCanBeChangedInEveryWay(t *testing.T) {
	repo := testkit.StartGit(t, testkit.GitOptions{}).Repo(t, "fleet")
	first := repo.Commit(t, "main", "one", map[string]string{"a": "1", "dir/b": "1", "dir/c": "1"})
	files := func() string { return git(t, clone(t, repo.URL()), "ls-files") }

	repo.Delete(t, "main", "drop", "dir")
	if got, want := files(), "a"; got != want {
		t.Errorf("after Delete: got %q, want %q", got, want)
	}
	repo.Revert(t, "main")
	if got, want := files(), "a\ndir/b\ndir/c"; got != want {
		t.Errorf("after Revert: got %q, want %q", got, want)
	}
	repo.CommitFS(t, "main", "exactly", fstest.MapFS{"x/y": {Data: []byte("y")}})
	if got, want := files(), "x/y"; got != want {
		t.Errorf("after CommitFS: got %q, want %q", got, want)
	}
	repo.ForcePush(t, "main", first)
	if got, want := files(), "a\ndir/b\ndir/c"; got != want {
		t.Errorf("after ForcePush: got %q, want %q", got, want)
	}
}

func TestSameChangesGiveSameHash(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	files := map[string]string{"a": "1", "b": "2"}
	one := server.Repo(t, "one").Commit(t, "main", "m", files)
	two := server.Repo(t, "two").Commit(t, "main", "m", files)
	if one != two {
		t.Errorf("got %s and %s, want the same", one, two)
	}
}

func TestStoppedServerComesBackAtTheSameAddress(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", map[string]string{"a": "1"})
	url := repo.URL()

	server.Stop()
	if out, err := tryGit(t, "", "ls-remote", url); err == nil {
		t.Errorf("ls-remote of a stopped server: got %q, want an error", out)
	}
	server.Restart(t)
	if got := git(t, "", "ls-remote", url, "refs/heads/main"); !strings.HasPrefix(got, hash) {
		t.Errorf("ls-remote after restart: got %q, want %s", got, hash)
	}
}

func TestTLSAndPasswordAreAskedFor(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, Username: "robot", Password: "secret"})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", map[string]string{"a": "1"})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, server.CA(t), 0o600); err != nil {
		t.Fatal(err)
	}
	trust := "http.sslCAInfo=" + ca
	named := strings.Replace(repo.URL(), "https://", "https://robot:secret@", 1)

	if _, err := tryGit(t, "", "-c", trust, "ls-remote", repo.URL()); err == nil {
		t.Error("without credentials: got an answer, want an error")
	}
	if _, err := tryGit(t, "", "ls-remote", named); err == nil {
		t.Error("without the CA: got an answer, want an error")
	}
	if got := git(t, "", "-c", trust, "ls-remote", named); !strings.Contains(got, "refs/heads/main") {
		t.Errorf("with both: got %q, want the branch", got)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", map[string]string{"a": "1"})
	git(t, "", "-c", "protocol.version=0", "ls-remote", repo.URL())
	if diff := cmp.Diff(testkit.GitRequests{Refs: 1}, server.Requests()); diff != "" {
		t.Errorf("after ls-remote (-want +got):\n%s", diff)
	}
	git(t, "", "-c", "protocol.version=0", "clone", "--quiet", repo.URL(), t.TempDir())
	if diff := cmp.Diff(testkit.GitRequests{Refs: 2, Packs: 1}, server.Requests()); diff != "" {
		t.Errorf("after clone (-want +got):\n%s", diff)
	}
}

func clone(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, "", "clone", "--quiet", url, dir)
	return dir
}

func read(t *testing.T, dir, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(t, dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func tryGit(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
