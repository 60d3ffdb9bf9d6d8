// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

func modules(urlByPath map[string]string) string {
	var b strings.Builder
	for path, url := range urlByPath {
		fmt.Fprintf(&b, "[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, url)
	}
	return b.String()
}

func TestSubmodulesOfTheSameHost(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, Username: "agent", Password: "hunter2"})
	auth := secret(t, map[string]string{"username": "agent", "password": "hunter2", "ca.crt": string(server.CA(t))})
	deep := server.Repo(t, "deep")
	deepHash := deep.Commit(t, "main", "deep", map[string]string{"d.yaml": "deep"})
	base := server.Repo(t, "base")
	base.Commit(t, "main", "base", map[string]string{"b.yaml": "base", ".gitmodules": modules(map[string]string{"deep": "../deep.git"})})
	old := base.Submodule(t, "main", "deep", deepHash)
	base.Commit(t, "main", "newer than what fleet wants", map[string]string{"b.yaml": "newer"})
	fleet := server.Repo(t, "fleet")
	fleet.Commit(t, "main", "fleet", map[string]string{"a.yaml": "a", ".gitmodules": modules(map[string]string{"lib/base": "../base.git"})})
	fleet.Submodule(t, "main", "lib/base", old)

	for _, cache := range []string{"", t.TempDir()} {
		options := gitsource.Options{URL: fleet.URL(), Auth: auth, Submodules: true, Cache: cache}
		for range 2 { // the second finds its cache, if it has one
			c := fetch(t, newSource(t, options))
			for name, want := range map[string]string{"a.yaml": "a", "lib/base/b.yaml": "base", "lib/base/deep/d.yaml": "deep"} {
				if got := content(t, c, name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		}
	}
	c := fetch(t, newSource(t, gitsource.Options{URL: fleet.URL(), Auth: auth}))
	if _, err := fs.ReadFile(c.Tree, "lib/base/b.yaml"); err == nil || !strings.Contains(err.Error(), "open lib/base/b.yaml: is in a submodule, which is fetched with --submodules only") &&
		!strings.Contains(err.Error(), "read lib/base/b.yaml: is in a submodule") {
		t.Errorf("err = %v", err)
	}
}

func TestSubmodulesThatAreRefused(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	other := server.Repo(t, "other").Commit(t, "main", "other", files("other"))
	loop := server.Repo(t, "loop")
	again := loop.Commit(t, "main", "loop", map[string]string{".gitmodules": modules(map[string]string{"again": "../loop.git"})})
	for range 4 {
		again = loop.Submodule(t, "main", "again", again)
	}
	for name, tt := range map[string]struct{ modules, hash, want string }{
		"absolute":   {modules(map[string]string{"sub": "https://evil.example/x.git"}), other, "submodule sub: its URL is not relative"},
		"host":       {modules(map[string]string{"sub": "//evil.example/x.git"}), other, "its URL is not relative"},
		"ssh":        {modules(map[string]string{"sub": "git@evil.example:x.git"}), other, "its URL is not relative"},
		"climbing":   {modules(map[string]string{"sub": "../../../x.git"}), other, "leads out of the server"},
		"not there":  {modules(map[string]string{"sub": "../missing.git"}), other, "/missing.git: there is no such repository"},
		"no commit":  {modules(map[string]string{"sub": "../other.git"}), strings.Repeat("1", 40), "/other.git: "},
		"not listed": {"", other, ".gitmodules does not name its URL"},
		"too deep":   {modules(map[string]string{"sub": "../loop.git"}), again, "submodules of submodules, more than 3 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := server.Repo(t, strings.ReplaceAll("fleet-"+name, " ", "-"))
			repo.Commit(t, "main", "fleet", map[string]string{"a.yaml": "a", ".gitmodules": tt.modules})
			repo.Submodule(t, "main", "sub", tt.hash)
			fetchError(t, newSource(t, gitsource.Options{URL: repo.URL(), Submodules: true}), tt.want)
		})
	}
}
