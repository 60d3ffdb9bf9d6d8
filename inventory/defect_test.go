// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/inventory"
)

// Each file of testdata/defects is one object. A line "# want field: message"
// is a defect that it has; without one it has none. The tests of the cluster
// send the same files to an API server, which has to agree.
func TestDefects(t *testing.T) {
	files, err := filepath.Glob("testdata/defects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(data, &obj.Object); err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for line := range strings.Lines(string(data)) {
				if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# want "); ok {
					want = append(want, text)
				}
			}
			for _, d := range inventory.Defects(obj) {
				got = append(got, d.Field+": "+d.Message)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnnotationsBeyondTheLimit(t *testing.T) {
	obj := objectOf(parse(t, "ConfigMap/ns/a"))
	obj.SetAnnotations(map[string]string{"a": strings.Repeat("x", 200<<10), "b": strings.Repeat("x", 100<<10)})
	want := "[{metadata.annotations are larger than 256 KiB together false}]"
	if got := fmt.Sprint(inventory.Defects(obj)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	obj.SetAnnotations(map[string]string{"a": strings.Repeat("x", 200<<10)})
	obj.SetName(strings.Repeat("x", 254))
	if got := fmt.Sprint(inventory.Defects(obj)); got != "[{metadata.name has 254 characters, and the longest has 253 false}]" {
		t.Errorf("got %s", got)
	}
}

// Whatever is in the fields, looking at them is safe.
func FuzzDefects(f *testing.F) {
	for _, seed := range []string{"spec: {template: {spec: {containers: [1, {env: [x, {name: {}}, {name: {}}]}]}}}", "metadata: {labels: {a: 1}}", "spec: []", "metadata: {annotations: [a]}"} {
		f.Add("apps/v1", "DaemonSet", seed)
		f.Add("v1", "Service", seed)
	}
	f.Fuzz(func(t *testing.T, apiVersion, kind, text string) {
		obj := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(text), &obj.Object) != nil || obj.Object == nil {
			return
		}
		obj.SetAPIVersion(apiVersion)
		obj.SetKind(kind)
		for _, d := range inventory.Defects(obj) {
			if d.Field == "" || d.Message == "" {
				t.Errorf("an empty defect: %+v", d)
			}
		}
	})
}
