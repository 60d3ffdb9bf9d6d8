// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"lamplighter.dev/inventory"
)

// Each section of testdata/ignore/pointers.txt is an object and, in comments, the
// fields that it ignores or the defects that it has.
func TestIgnored(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/ignore/pointers.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range archive.Files {
		t.Run(section.Name, func(t *testing.T) {
			obj := fromYAML(t, string(section.Data))
			var got, want []string
			for line := range strings.Lines(string(section.Data)) {
				if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
					want = append(want, text)
				}
			}
			pointers, err := inventory.Ignored(obj)
			if err == nil {
				for _, p := range pointers {
					got = append(got, "ignored: "+strings.Join(p, " > "))
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

// What is written is read again, whatever the keys, commas aside.
func TestPointersAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringMatching(`[a-z~/.0-9 ]*[a-z~/.0-9]`), 1, 4).Draw(t, "keys")
		want := inventory.Pointer(append([]string{"spec"}, keys...))
		obj := objectOf(inventory.ID{Namespace: "ns", Name: "a"})
		obj.SetAnnotations(map[string]string{inventory.IgnoreAnnotation: want.String()})
		got, err := inventory.Ignored(obj)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]inventory.Pointer{want}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzIgnored(f *testing.F) {
	data, err := os.ReadFile("testdata/ignore/pointers.txt")
	if err != nil {
		f.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(data)) {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, text string) {
		obj := objectOf(inventory.ID{Namespace: "ns", Name: "a"})
		obj.SetAnnotations(map[string]string{inventory.IgnoreAnnotation: text})
		pointers, err := inventory.Ignored(obj)
		if err == nil && len(pointers) == 0 {
			t.Errorf("%q ignores nothing and is no error", text)
		}
		for _, p := range pointers {
			if len(p) == 0 || p[0] == "kind" || p[0] == "status" {
				t.Errorf("%q ignores %q", text, p)
			}
		}
	})
}
