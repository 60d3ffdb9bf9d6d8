// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPageExample: the wrong example of docs/concepts/windows.md is refused in
// the words of the page.
func TestPageExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/windows.md")
	if err != nil {
		t.Fatal(err)
	}
	d := Document{File: "windows.yaml", Line: 1}
	if err := yaml.Unmarshal([]byte(`
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: weeknights}
spec: {timeZone: Europe/Berlin, schedule: "0 22 * * 1-5", duration: 6h, examples: [{at: "2026-03-29T01:30:00Z", open: true}]}
`), &d.Object); err != nil {
		t.Fatal(err)
	}
	_, problems := Parse([]Document{d}, nil, caseNow)
	if len(problems) != 1 || problems[0].Code != WrongExample || !strings.Contains(string(page), "\n"+problems[0].String()+"\n") {
		t.Errorf("the page does not say %v", problems)
	}
}
