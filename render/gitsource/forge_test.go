// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
	"lamplighter.dev/render/gitsource/signature"
)

// onForge is a forge with two people: who keeps the repositories, and the agent,
// who may read those to which it is invited.
type onForge struct {
	*testkit.Forge
	keeper, agent testkit.ForgeUser
	git           *testkit.GitServer // where commits are made before they are pushed
}

// fleet is a private repository that the agent may read, and the one that is pushed
// to it.
func (f onForge) fleet(t *testing.T, name string) (*testkit.ForgeRepo, *testkit.GitRepo) {
	t.Helper()
	repo := f.Repo(t, f.keeper, name)
	repo.Invite(t, f.agent)
	return repo, f.git.Repo(t, name)
}

// options are those of an agent with a token, as the guide has it.
func (f onForge) options(t *testing.T, repo *testkit.ForgeRepo) gitsource.Options {
	t.Helper()
	token := f.Token(t, f.agent, "read:repository")
	return gitsource.Options{URL: repo.URL(), Auth: secret(t, map[string]string{"username": f.agent.Name, "password": token, "ca.crt": f.CA()})}
}

// A forge is more than git behind a web server: it has its own ssh server, its own
// words of refusal, and references that nobody pushed.
func TestForge(t *testing.T) {
	forge := testkit.StartForge(t)
	f := onForge{Forge: forge, keeper: forge.User(t, "platform"), agent: forge.User(t, "lamplighter"), git: testkit.StartGit(t, testkit.GitOptions{})}
	for name, test := range map[string]func(*testing.T, onForge){
		"https": forgeOverHTTPS, "ssh": forgeOverSSH, "branches": forgeBranches, "references": forgeReferences,
		"forward only": forgeForwardOnly, "submodules": forgeSubmodules, "renamed": forgeRenamed,
	} {
		t.Run(name, func(t *testing.T) { test(t, f) })
	}
}

func forgeOverHTTPS(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "over-https")
	stranger := f.User(t, "stranger")
	local.Commit(t, "main", "one", files("one"))
	repo.Push(t, local, "main")
	read := f.Token(t, f.agent, "read:repository")
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // of the error; "" means that it reads
	}{
		"token":          {map[string]string{"username": f.agent.Name, "password": read}, ""},
		"password":       {map[string]string{"username": f.agent.Name, "password": f.agent.Password}, ""},
		"bearer token":   {map[string]string{"bearerToken": read}, ""},
		"wrong token":    {map[string]string{"username": f.agent.Name, "password": read[1:] + "0"}, "the server refuses the credentials"},
		"wrong bearer":   {map[string]string{"bearerToken": read[1:] + "0"}, "the server refuses the credentials"},
		"no credentials": {map[string]string{}, "the server refuses the credentials"},
		"other scope":    {map[string]string{"username": f.agent.Name, "password": f.Token(t, f.agent, "read:issue")}, "the server does not allow reading this repository"},
		"stranger":       {map[string]string{"username": stranger.Name, "password": stranger.Password}, "there is no such repository, or it is hidden from us"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.files["ca.crt"] = f.CA()
			s := newSource(t, gitsource.Options{URL: repo.URL(), Auth: secret(t, tt.files)})
			if tt.want == "" {
				wantContent(t, s, "one")
				return
			}
			if err := fetchError(t, s, tt.want); strings.Contains(err.Error(), read[1:]) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func forgeOverSSH(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "over-ssh")
	local.Commit(t, "main", "one", files("one"))
	repo.Push(t, local, "main")
	key, public := identity(t, "")
	repo.DeployKey(t, public)
	stranger, _ := identity(t, "")
	at := strings.Fields(f.KnownHosts())[0]
	for name, tt := range map[string]struct{ identity, hosts, want string }{
		"deploy key":       {key, f.KnownHosts(), ""},
		"unknown key":      {stranger, f.KnownHosts(), "the server refuses the key"},
		"other host key":   {key, knownhosts.Line([]string{at}, testkit.NewSSHKey(t).PublicKey()) + "\n", "is not the one in known_hosts (ssh-ed25519)"},
		"no such host key": {key, "github.com " + strings.SplitN(f.KnownHosts(), " ", 2)[1], "known_hosts has no key of [127.0.0.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, gitsource.Options{URL: repo.SSH(), Auth: secret(t, map[string]string{"identity": tt.identity, "known_hosts": tt.hosts})})
			if tt.want == "" {
				wantContent(t, s, "one")
				return
			}
			fetchError(t, s, tt.want)
		})
	}
	t.Run("another repository", func(t *testing.T) {
		other, local := f.fleet(t, "not-over-ssh")
		local.Commit(t, "main", "one", files("one"))
		other.Push(t, local, "main")
		s := newSource(t, gitsource.Options{URL: other.SSH(), Auth: secret(t, map[string]string{"identity": key, "known_hosts": f.KnownHosts()})})
		fetchError(t, s, "there is no such repository, or it is hidden from us")
	})
}

func forgeBranches(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "branches")
	s := newSource(t, f.options(t, repo))
	fetchError(t, s, "the repository is empty: push to main")
	first := local.Commit(t, "main", "one", files("one"))
	repo.Push(t, local, "main")
	wantContent(t, s, "one")
	local.Commit(t, "main", "two", files("two"))
	repo.Push(t, local, "main")
	wantContent(t, s, "two")

	local.ForcePush(t, "main", first)
	third := local.Commit(t, "main", "three", files("three"))
	repo.Push(t, local, "+main")
	three := fetch(t, s)
	if three.Hash != third {
		t.Errorf("after a forced push the commit is %s, want %s", three.Hash, third)
	}

	repo.Push(t, local, "main:trunk")
	repo.DefaultBranch(t, "trunk")
	repo.Push(t, local, ":main")
	fetchError(t, s, "no branch or tag main: there is trunk (the default)")
	if content(t, three, "dir/a.yaml") != "three" {
		t.Error("the last good commit is not readable")
	}
	local.Commit(t, "main", "four", files("four"))
	repo.Push(t, local, "main")
	wantContent(t, s, "four")
}

func forgeReferences(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "references")
	first := local.Commit(t, "main", "one", files("one"))
	key := filepath.Join(t.TempDir(), "key")
	keygen(t, key, "-t", "ed25519", "-N", "")
	local.Git(t, "-c", "user.name=Lamp Lighter", "-c", "user.email=lamp@example.com", "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "tag", "-s", "-m", "release", "v1.2.0", first)
	local.Commit(t, "main", "two", files("two"))
	local.Commit(t, "change", "three", files("three"))
	repo.Push(t, local, "main", "change", "v1.2.0")
	number := repo.PullRequest(t, "change", "main")
	for ref, want := range map[string]string{
		"main": "two", "v1.2.0": "one", "semver:>=1 <2": "one", first: "one", "refs/heads/change": "three", fmt.Sprintf("refs/pull/%d/head", number): "three",
	} {
		t.Run(ref, func(t *testing.T) {
			o := f.options(t, repo)
			o.Ref = ref
			c := fetch(t, newSource(t, o))
			if got := content(t, c, "dir/a.yaml"); got != want {
				t.Errorf("content = %q, want %q", got, want)
			}
			if ref != "v1.2.0" {
				return
			}
			keys, err := signature.ParseKeys([]byte("lamp@example.com " + readFile(t, key+".pub")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := keys.VerifyTag([]byte(c.TagObject), signature.Tag{Name: "v1.2.0", Commit: c.Hash}, time.Now()); err != nil {
				t.Errorf("the signature that was pushed is not what arrives: %v", err)
			}
		})
	}
}

func forgeForwardOnly(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "forward")
	first := local.Commit(t, "main", "one", files("one"))
	local.Commit(t, "main", "two", files("two"))
	second := local.Commit(t, "main", "three", files("three"))
	repo.Push(t, local, "main")
	o := f.options(t, repo)
	o.Cache = t.TempDir()
	s := newSource(t, o)
	fetch(t, s)
	descends := func(from string, want bool) {
		t.Helper()
		if got, err := s.Descends(t.Context(), from); err != nil || got != want {
			t.Errorf("on top of %.7s: %t, %v, want %t", from, got, err, want)
		}
	}
	descends(first, true)
	local.ForcePush(t, "main", first)
	repo.Push(t, local, "+main")
	fetch(t, s)
	descends(second, false)
}

func forgeSubmodules(t *testing.T, f onForge) {
	base, baseLocal := f.fleet(t, "base")
	hash := baseLocal.Commit(t, "main", "base", files("of the submodule"))
	base.Push(t, baseLocal, "main")
	repo, local := f.fleet(t, "with-submodule")
	local.Commit(t, "main", "modules", map[string]string{".gitmodules": "[submodule \"base\"]\n\tpath = base\n\turl = ../base.git\n"})
	local.Submodule(t, "main", "base", hash)
	repo.Push(t, local, "main")
	o := f.options(t, repo)
	o.Submodules = true
	if got := content(t, fetch(t, newSource(t, o)), "base/dir/a.yaml"); got != "of the submodule" {
		t.Errorf("content = %q", got)
	}
}

// A forge redirects from the old name of a repository.
func forgeRenamed(t *testing.T, f onForge) {
	repo, local := f.fleet(t, "old-name")
	local.Commit(t, "main", "one", files("one"))
	repo.Push(t, local, "main")
	o := f.options(t, repo)
	s := newSource(t, o)
	wantContent(t, s, "one")
	repo.Rename(t, "new-name")
	local.Commit(t, "main", "two", files("two"))
	repo.Push(t, local, "main")
	wantContent(t, s, "two")
}
