// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestMissingBinaryIsBuiltOnce(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{
		"go.mod":               "module lamplighter.dev\n",
		"nested/go.mod":        "module lamplighter.dev/nested\n",
		"cmd/sandbox/build.sh": "#!/bin/sh\necho built >>" + root + "/builds; echo sandbox >$1\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LAMPLIGHTER_SANDBOX", "")
	t.Chdir(filepath.Join(root, "nested"))

	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			got, err := sandboxBinary()
			if want := filepath.Join(root, "bin", "sandbox"); err != nil || got != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
	both.Wait()
	builds, err := os.ReadFile(filepath.Join(root, "builds"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(builds), "built"); got != 1 {
		t.Errorf("builds: got %d, want 1", got)
	}
}
