// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/render"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// directory writes files and symbolic links ("-> target") and opens the
// directory as the command line does.
func directory(t *testing.T, files map[string]string) fs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, "repo", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "outside.yaml"), []byte(configMap), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root.FS()
}

func TestSymbolicLinks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		path  string
		err   string // empty: builds, from File
		file  string
	}{{
		name:  "to a file inside",
		files: map[string]string{"prod/kustomization.yaml": "resources: [a.yaml]", "prod/a.yaml": "-> ../base/a.yaml", "base/a.yaml": configMap},
		path:  "prod", file: "prod/a.yaml",
	}, {
		name:  "to a base inside",
		files: map[string]string{"prod/kustomization.yaml": "resources: [base]", "prod/base": "-> ../base", "base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": configMap},
		path:  "prod", file: "prod/base/a.yaml",
	}, {
		name:  "as the path itself",
		files: map[string]string{"current": "-> prod", "prod/a.yaml": configMap},
		path:  "current", file: "current/a.yaml",
	}, {
		name:  "to a file outside",
		files: map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "-> ../outside.yaml"},
		path:  ".", err: "kustomization.yaml: line 1: resources[0]: a.yaml: leaves the repository",
	}, {
		name:  "to a file outside, in a plain directory",
		files: map[string]string{"a.yaml": "-> ../outside.yaml"},
		path:  ".", err: "a.yaml: leaves the repository",
	}, {
		name:  "to a kustomization outside",
		files: map[string]string{"kustomization.yaml": "-> ../outside.yaml", "a.yaml": configMap},
		path:  ".", err: "kustomization.yaml: leaves the repository",
	}, {
		name:  "absolute",
		files: map[string]string{"kustomization.yaml": "configMapGenerator: [{name: a, files: [passwd]}]", "passwd": "-> /etc/passwd"},
		path:  ".", err: "kustomization.yaml: line 1: configMapGenerator[0].files[0]: passwd: leaves the repository",
	}, {
		name:  "the path outside",
		files: map[string]string{"out": "-> .."},
		path:  "out", err: "out: leaves the repository",
	}, {
		name:  "to nothing",
		files: map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "-> missing.yaml"},
		path:  ".", err: "kustomization.yaml: line 1: resources[0]: a.yaml: does not exist",
	}, {
		name:  "in a circle of bases",
		files: map[string]string{"a/kustomization.yaml": "resources: [self]", "a/self": "-> ."},
		path:  "a", err: "a/self/",
	}} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := render.Build(t.Context(), directory(t, tt.files), tt.path)
			switch {
			case err == nil && tt.err != "":
				t.Errorf("builds, want error %q", tt.err)
			case err != nil && (tt.err == "" || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("err = %v, want %q", err, tt.err)
			case err == nil && (len(out.Objects) != 1 || out.Objects[0].File != tt.file):
				t.Errorf("got %d objects, want one from %s: %s", len(out.Objects), tt.file, format(t, out))
			}
		})
	}
}

func TestExampleFleetBuilds(t *testing.T) {
	clusters, err := filepath.Glob("../examples/fleet/clusters/*")
	if err != nil || len(clusters) == 0 {
		t.Fatal("no clusters", err)
	}
	root, err := os.OpenRoot("../examples/fleet")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, cluster := range clusters {
		out, err := render.Build(t.Context(), root.FS(), "clusters/"+filepath.Base(cluster))
		if err != nil || len(out.Objects) == 0 || len(out.Policies) == 0 {
			t.Errorf("%s: %d objects, %d policies, %v", cluster, len(out.Objects), len(out.Policies), err)
		}
		for _, o := range append(out.Objects, out.Policies...) {
			if _, err := fs.Stat(root.FS(), o.File); err != nil {
				t.Errorf("%s: %v", o.GetName(), err)
			}
		}
	}
}

// The OpenAPI schema of one build would change how the next one merges lists.
func TestSchemaOfOneBuildDoesNotReachTheNext(t *testing.T) {
	c := readCase(t, "testdata/schema.txtar")
	build := func(path string) string {
		out, err := render.Build(t.Context(), c.tree, path)
		if err != nil {
			t.Fatal(err)
		}
		return format(t, out)
	}
	before := build("plain")
	build("custom")
	if diff := cmp.Diff(before, build("plain")); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// Same tree and path, same output, whatever else is built meanwhile.
func TestBuildsAreDeterministicAndConcurrent(t *testing.T) {
	files := casefile.Files(t, cases)
	result := func(c testCase) string {
		out, err := render.Build(t.Context(), c.tree, c.path)
		if err != nil {
			return err.Error()
		}
		return format(t, out)
	}
	cases, want := make([]testCase, len(files)), make([]string, len(files))
	for i, file := range files {
		cases[i] = readCase(t, file)
		want[i] = result(cases[i])
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for _, i := range rand.Perm(len(cases))[:len(cases)/4] {
				if diff := cmp.Diff(want[i], result(cases[i])); diff != "" {
					t.Errorf("%s differs the second time (-first +second):\n%s", files[i], diff)
				}
			}
		})
	}
	wg.Wait()
}

// Twenty levels, each including the one below twice: a million objects.
func TestBasesThatMultiplyAreRefused(t *testing.T) {
	tree := fstest.MapFS{
		"l0/kustomization.yaml": {Data: []byte("resources: [a.yaml]")},
		"l0/a.yaml":             {Data: []byte(configMap)},
	}
	for level := 1; level <= 20; level++ {
		dir := fmt.Sprintf("l%d", level)
		tree[dir+"/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [left, right]")}
		for _, side := range []string{"left", "right"} {
			tree[dir+"/"+side+"/kustomization.yaml"] = &fstest.MapFile{
				Data: fmt.Appendf(nil, "resources: [../../l%d]\nnamePrefix: %s-", level-1, side),
			}
		}
	}
	_, err := render.Build(t.Context(), tree, "l20")
	if err == nil || !strings.Contains(err.Error(), "bases are included too often") {
		t.Errorf("err = %v", err)
	}
	if out, err := render.Build(t.Context(), tree, "l3"); err != nil || len(out.Objects) != 8 {
		t.Errorf("three levels: %d objects, %v", len(out.Objects), err)
	}
}
