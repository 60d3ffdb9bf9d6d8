// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lamplighter.dev/reconcile/cluster"
)

// What is called a defect the API server refuses, and nothing else of the cases.
func TestAPIServerAgreesOnDefects(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	files, err := filepath.Glob("../../inventory/testdata/defects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := w.cluster.Inspect(t.Context(), w.objects(t, string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Contains(string(data), "# want"); (changes[0].Err != nil) != want {
			t.Errorf("%s: the API server says %v", filepath.Base(file), changes[0].Err)
		}
	}
}
