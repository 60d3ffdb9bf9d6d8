// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/reconcile/check"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// FuzzRun checks two copies of any object under two names: whatever is in it,
// there is an answer, and it is one of the catalogue, sorted, with its remedy.
func FuzzRun(f *testing.F) {
	for _, name := range []string{"mutable-config", "host-port-conflict", "invalid-object", "disruption-budget", "unknown-check"} {
		for _, document := range documents(f, filepath.Join("testdata", name+".txtar")) {
			f.Add(document)
		}
	}
	known := map[check.ID]check.Check{}
	for _, c := range check.All() {
		known[c.ID] = c
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var objects []render.Object
		for _, name := range []string{"a", "b"} {
			var o map[string]any
			if json.Unmarshal(document, &o) != nil || o == nil {
				return
			}
			u := &unstructured.Unstructured{Object: o}
			if _, ok := o["metadata"].(map[string]any); !ok {
				return // the renderer takes nothing without a name
			}
			u.SetName(name)
			objects = append(objects, render.Object{Unstructured: u, OriginalName: name, File: "f.yaml"})
		}
		problems := []policy.Problem{{Level: policy.Warning, Object: "MaintenanceWindow/w", Message: "m"}}
		report := check.Run(check.Fleet{Objects: objects, Policies: objects, Problems: problems})
		for _, found := range report.Findings {
			if c := known[found.ID]; c.Level != found.Level || found.Remedy == "" || found.Message == "" {
				t.Errorf("%+v is not a finding of %+v", found, c)
			}
		}
		if !slices.IsSortedFunc(report.Findings, func(a, b check.Finding) int {
			return slices.Compare([]string{a.File, a.Object, a.Field}, []string{b.File, b.Object, b.Field})
		}) {
			t.Errorf("not sorted: %v", report.Findings)
		}
	})
}

// documents are the objects of a case as JSON.
func documents(f *testing.F, name string) [][]byte {
	f.Helper()
	var out [][]byte
	for _, text := range fleetDocuments(f, name) {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
