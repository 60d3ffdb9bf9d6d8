// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	kresource "sigs.k8s.io/kustomize/api/resource"
)

// kustomizeClones asks kustomize itself: it notes the repository of an origin
// that it takes for a git remote.
func kustomizeClones(target string) (clones bool) {
	defer func() {
		if recover() != nil { // it has seen a remote, and then sliced too far
			clones = true
		}
	}()
	return new(kresource.Origin).Append(target).Repo != ""
}

func FuzzRemote(f *testing.F) {
	for _, s := range []string{
		"https://github.com/org/repo", "HTTP://x/y/z", "github.com/org/repo//base?ref=v1", "GitHub.com:org/repo.git",
		"git@github.com:org/repo", "git::https://x/y/z", "ssh://git@x/y/z.git", "file:///srv/repo", "org-1@host:a/b",
		"../base", "base", "a@b", "a.yaml", "x_y@z", "https:/x", "gh:org/repo",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if kustomizeClones(target) && !isRemote(target) {
			t.Errorf("%q: kustomize would clone it", target)
		}
	})
}

func TestInTreePathsAreNotRemote(t *testing.T) {
	for _, target := range []string{"../base", "base", "a.yaml", "./a", "../../agents/x.y", "configs/a=b.ini", "a:b"} {
		if isRemote(target) {
			t.Errorf("%q is taken for remote", target)
		}
	}
}
