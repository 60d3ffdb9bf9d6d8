// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// eachTransport gives options for the same repository over http, over ssh and
// as a folder. publish brings what was committed to where they point.
func eachTransport(t *testing.T, test func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func())) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		test(t, repo, gitsource.Options{URL: url}, publish)
	})
	t.Run("ssh", func(t *testing.T) {
		server := testkit.StartGit(t, testkit.GitOptions{})
		key, public := identity(t, "")
		host := server.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
		repo := server.Repo(t, "fleet")
		auth := secret(t, map[string]string{"identity": key, "known_hosts": host.KnownHosts()})
		test(t, repo, gitsource.Options{URL: host.URL(repo), Auth: auth}, func() {})
	})
}

func TestEveryKindOfRef(t *testing.T) {
	eachTransport(t, func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func()) {
		first := repo.Commit(t, "main", "one", files("one"))
		second := repo.Commit(t, "main", "two", files("two"))
		repo.SetRef(t, "refs/tags/v1.0.0", first)
		third := repo.Commit(t, "main", "three", files("three"))
		repo.Tag(t, "v1.1.0", second)
		repo.SetRef(t, "refs/pull/1/head", second)
		repo.SetRef(t, "refs/heads/stable", first)
		repo.SetRef(t, "refs/tags/stable", second)
		publish()
		for ref, want := range map[string]struct{ hash, name, content string }{
			"main":              {third, "main", "three"},
			"v1.0.0":            {first, "v1.0.0", "one"},
			"v1.1.0":            {second, "v1.1.0", "two"},
			"semver:1.x":        {second, "v1.1.0", "two"},
			"semver:<1.1":       {first, "v1.0.0", "one"},
			"refs/heads/stable": {first, "refs/heads/stable", "one"},
			"refs/tags/v1.1.0":  {second, "refs/tags/v1.1.0", "two"},
			"refs/pull/1/head":  {second, "refs/pull/1/head", "two"},
			second:              {second, second, "two"},
		} {
			o.Ref = ref
			c := fetch(t, newSource(t, o))
			if c.Hash != want.hash || c.Branch != want.name || content(t, c, "dir/a.yaml") != want.content {
				t.Errorf("%s: got %s of %s, want %+v", ref, c.Hash, c.Branch, want)
			}
		}
		o.Ref = "stable"
		fetchError(t, newSource(t, o), "stable is a branch and a tag: write refs/heads/stable or refs/tags/stable")
		o.Ref = strings.Repeat("1", 40)
		fetchError(t, newSource(t, o), "fetch "+o.Ref)
		repo.SetRef(t, "refs/tags/tree", repo.Git(t, "rev-parse", "main^{tree}"))
		publish()
		o.Ref = "tree"
		fetchError(t, newSource(t, o), "a tree, where a commit should be")
	})
}

func TestTagsThatMove(t *testing.T) {
	eachTransport(t, func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func()) {
		first := repo.Commit(t, "main", "one", files("one"))
		repo.Tag(t, "v1.0.0", first)
		publish()
		o.Ref = "semver:1.x"
		s := newSource(t, o)
		if c := fetch(t, s); c.Hash != first || c.Branch != "v1.0.0" {
			t.Errorf("commit = %+v", c)
		}
		repo.Tag(t, "v1.0.1", first)
		publish()
		if c := fetch(t, s); c.Hash != first || c.Branch != "v1.0.1" {
			t.Errorf("a new version of the same commit: %+v", c)
		}
		second := repo.Commit(t, "main", "two", files("two"))
		repo.Tag(t, "v1.0.1", second)
		publish()
		if c := fetch(t, s); c.Hash != second || content(t, c, "dir/a.yaml") != "two" {
			t.Errorf("the tag was moved: %+v", c)
		}
	})
}

// A commit does not change, so the server is left alone.
func TestPinnedCommitCostsNothing(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", files("one"))
	s := newSource(t, gitsource.Options{URL: repo.URL(), Ref: hash})
	fetch(t, s)
	server.Stop()
	fetch(t, s)
}

func TestCommitsThatTheServerDoesNotGive(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Config(t, "uploadpack.allowAnySHA1InWant", "false")
	first := repo.Commit(t, "main", "one", files("one"))
	second := repo.Commit(t, "main", "two", files("two"))
	fetch(t, newSource(t, gitsource.Options{URL: repo.URL(), Ref: second}))
	fetchError(t, newSource(t, gitsource.Options{URL: repo.URL(), Ref: first}), "point a tag at "+first)
	repo.Tag(t, "pinned", first)
	if c := fetch(t, newSource(t, gitsource.Options{URL: repo.URL(), Ref: first})); c.Hash != first {
		t.Errorf("commit = %+v", c)
	}
}

func TestHistoriesInEveryShape(t *testing.T) {
	eachTransport(t, func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func()) {
		s := newSource(t, o)
		fetchError(t, s, "the repository is empty: push to main")
		one := repo.Commit(t, "main", "one", files("one"))
		repo.Git(t, "symbolic-ref", "HEAD", "refs/heads/unborn")
		publish()
		fetch(t, s)

		two := repo.Commit(t, "main", "two", files("two"))
		repo.Git(t, "pack-refs", "--all")
		repo.Git(t, "gc", "--quiet", "--prune=now")
		publish()
		if c := fetch(t, s); c.Hash != two {
			t.Errorf("packed references: %+v", c)
		}

		// A rebase: the same change on another base, and the old one is gone.
		repo.ForcePush(t, "main", one)
		repo.Commit(t, "main", "rebased", files("base"))
		rebased := repo.Commit(t, "main", "two again", files("two"))
		repo.Git(t, "gc", "--quiet", "--prune=now")
		publish()
		if c := fetch(t, s); c.Hash != rebased || content(t, c, "dir/a.yaml") != "two" {
			t.Errorf("rebased: %+v", c)
		}

		// The server's own repository has no history either.
		repo.ForcePush(t, "main", one)
		repo.Git(t, "gc", "--quiet", "--prune=now")
		publish()
		if c := fetch(t, s); c.Hash != one || content(t, c, "dir/a.yaml") != "one" {
			t.Errorf("back: %+v", c)
		}
	})
}

func TestRepositoryOfSHA256(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	if err := os.RemoveAll(repo.Dir()); err != nil {
		t.Fatal(err)
	}
	git(t, "init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", repo.Dir())
	repo.Commit(t, "main", "one", files("one"))
	fetchError(t, newSource(t, gitsource.Options{URL: repo.URL()}), "by SHA-256: only those of SHA-1 are read")
	fetchError(t, newSource(t, gitsource.Options{URL: repo.Dir()}), "object")
}

func TestShallowMirror(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	hash := repo.Commit(t, "main", "two", files("two"))
	dir := filepath.Join(t.TempDir(), "shallow.git")
	git(t, "clone", "--quiet", "--bare", "--depth=1", repo.URL(), dir)
	if c := fetch(t, newSource(t, gitsource.Options{URL: dir})); c.Hash != hash || content(t, c, "dir/a.yaml") != "two" {
		t.Errorf("commit = %+v", c)
	}
}

// Azure DevOps serves nobody who does not offer multi_ack.
func TestServerThatInsistsOnMultiAck(t *testing.T) {
	real := testkit.StartGit(t, testkit.GitOptions{})
	real.Repo(t, "fleet").Commit(t, "main", "one", files("one"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Contains(body, []byte("multi_ack")) {
				http.Error(w, "TF401030: The Git request requires multi_ack", http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		real.ServeHTTP(w, r)
	}))
	defer server.Close()
	if c := fetch(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git"})); content(t, c, "dir/a.yaml") != "one" {
		t.Errorf("commit = %+v", c)
	}
}

// What git is configured to do on this machine is not done.
func TestConfigurationOfTheMachineDoesNotMatter(t *testing.T) {
	eachTransport(t, func(t *testing.T, repo *testkit.GitRepo, o gitsource.Options, publish func()) {
		repo.Commit(t, "main", "one", map[string]string{"a.yaml": "a: 1\n", ".gitattributes": "* text eol=crlf\n"})
		publish()
		home := t.TempDir()
		writeSecret(t, home, map[string]string{".gitconfig": "[core]\n\tautocrlf = true\n[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://\n\tinsteadOf = ssh://\n[http]\n\tproxy = http://127.0.0.1:1\n"})
		t.Setenv("HOME", home)
		t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
		t.Setenv("GIT_SSH_COMMAND", "false")
		t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "agent"))
		t.Setenv("SSH_KNOWN_HOSTS", filepath.Join(home, "nothing"))
		if got := content(t, fetch(t, newSource(t, o)), "a.yaml"); got != "a: 1\n" {
			t.Errorf("content = %q", got)
		}
	})
}
