// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render"
	"lamplighter.dev/render/gitsource"
)

// What a build cannot have is named where it is asked for.
func TestBuildNamesWhatIsNotFetched(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	other := server.Repo(t, "other").Commit(t, "main", "other", map[string]string{"kustomization.yaml": "resources: []\n"})
	for name, tt := range map[string]struct {
		resource, want string
	}{
		"submodule":           {"lib/base", "lib/base: is a submodule, which is fetched with --submodules only"},
		"file of a submodule": {"lib/base/a.yaml", "lib/base/a.yaml: is in a submodule, which is fetched with --submodules only"},
		"LFS pointer":         {"large.yaml", "large.yaml: is a pointer of Git LFS, which is not fetched: commit the file itself"},
		"escaping link":       {"out.yaml", "out.yaml: leaves the repository: symbolic link out.yaml -> ../../etc/passwd escapes from the repository"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := server.Repo(t, strings.ReplaceAll("fleet-"+name, " ", "-"))
			repo.Commit(t, "main", "fleet", map[string]string{
				"kustomization.yaml": "resources: [" + tt.resource + "]\n",
				"large.yaml":         "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
			})
			repo.Submodule(t, "main", "lib/base", other)
			repo.Link(t, "main", "out.yaml", "../../etc/passwd")
			c := fetch(t, newSource(t, gitsource.Options{URL: repo.URL()}))
			_, err := render.Build(t.Context(), c.Tree, ".")
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}
