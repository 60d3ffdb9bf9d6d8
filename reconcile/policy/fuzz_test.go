// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzParse: no document panics, every problem is one line that names its
// object, a document without problems is kept as it is, and what has an error
// does not open.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if strings.HasSuffix(section.Name, ".yaml") {
				for _, d := range seeds(f, section) {
					f.Add(d)
				}
			}
		}
	}
	daemonSets := []DaemonSet{{
		Name:         types.NamespacedName{Namespace: "kube-system", Name: "calico-node"},
		OriginalName: "calico-node", Labels: map[string]string{"tier": "cni"}, UpdateStrategy: onDelete,
	}}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := Document{File: "fuzz.yaml"}
		if json.Unmarshal(data, &d.Object) != nil {
			return
		}
		set, problems := Parse([]Document{d}, daemonSets, caseNow)
		for _, p := range problems {
			if line := p.String(); p.Message == "" || p.Object == "" || strings.ContainsAny(line, "\n\r") || strings.Contains(line, "%!") && !bytes.Contains(data, []byte("%!")) {
				t.Fatalf("%q", line)
			}
		}
		if !hasErrors(problems) && len(set.Windows)+len(set.Freezes)+len(set.Upgrades) != 1 {
			t.Fatalf("no error, and %+v", set)
		}
		for _, w := range set.Windows {
			if !hasErrors(problems) && w.Window.Length() <= 0 {
				t.Fatalf("no error, and window %s", w.Window)
			}
		}
		for _, f := range set.Freezes {
			if !hasErrors(problems) && f.Freeze.Length() <= 0 {
				t.Fatalf("no error, and freeze %s", f.Freeze)
			}
		}
		again, faults := ParseRecorded(stored(t, set.Documents()), caseNow)
		if !hasErrors(problems) && (hasErrors(faults) || len(again.Windows) != len(set.Windows) || len(again.Upgrades) != len(set.Upgrades)) {
			t.Fatalf("read again: %v", faults)
		}
	})
}

// seeds are the documents of a section, as JSON.
func seeds(f *testing.F, section txtar.File) [][]byte {
	f.Helper()
	var out [][]byte
	for _, d := range documents(f, section) {
		data, err := json.Marshal(d.Object)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
