// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// What a signature is made over has to come byte for byte.
func TestObjectsAreAsGitStoresThem(t *testing.T) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		first := repo.Commit(t, "main", "one\n\nwith a body", files("one"))
		tree := repo.Git(t, "rev-parse", first+"^{tree}")
		// Headers that go-git does not know, as a signature may cover them.
		raw := "tree " + tree + "\nauthor A <a@example.com> 1767225600 +0130\ncommitter A <a@example.com> 1767225600 -0000\nencoding latin1\nx-odd  two  spaces\n\nsubject\n\n\n"
		odd := repo.Object(t, "commit", raw)
		repo.SetRef(t, "refs/heads/main", odd)
		repo.Tag(t, "v1", odd)
		repo.SetRef(t, "refs/tags/light", odd)
		publish()
		for ref, want := range map[string]string{"main": "", "light": "", odd: "", "v1": "object " + odd + "\ntype commit\ntag v1\n", "refs/tags/v1": "object " + odd} {
			c := fetch(t, newSource(t, gitsource.Options{URL: url, Ref: ref}))
			if c.Object != raw {
				t.Errorf("%s: object %q, want %q", ref, c.Object, raw)
			}
			if (c.TagObject == "") != (want == "") || !strings.HasPrefix(c.TagObject, want) {
				t.Errorf("%s: tag %q, want %q", ref, c.TagObject, want)
			}
		}
	})
}

func TestTagThatIsMadeAgainForTheSameCommit(t *testing.T) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		head := repo.Commit(t, "main", "one", files("one"))
		repo.Tag(t, "v1", head)
		publish()
		s := newSource(t, gitsource.Options{URL: url, Ref: "v1"})
		before := fetch(t, s)
		again := strings.Replace(before.TagObject, "\n\nv1", "\n\nsigned now", 1)
		repo.SetRef(t, "refs/tags/v1", repo.Object(t, "tag", again))
		publish()
		if after := fetch(t, s); after.TagObject != again || after.Hash != head {
			t.Errorf("tag %q, want %q", after.TagObject, again)
		}
	})
}
