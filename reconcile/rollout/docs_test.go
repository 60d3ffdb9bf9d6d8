// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/reconcile/health"
)

// The tables in the documentation list exactly the states and reasons that are.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(health.States()), rowsUnder(page, "Node states")); diff != "" {
		t.Errorf("documented states (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(texts(LeakCauses()), rowsUnder(page, "Leaks")); diff != "" {
		t.Errorf("documented causes (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(texts(Reasons()), rowsUnder(page, "Reasons")); diff != "" {
		t.Errorf("documented reasons (-code +page):\n%s", diff)
	}
}

// rowsUnder are the first cells of the table under a heading.
func rowsUnder(page []byte, heading string) []string {
	_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	return names
}

func texts[S ~string](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// Every Reason constant is listed by Reasons, and every State by States.
func TestListsAreComplete(t *testing.T) {
	for file, want := range map[string][]string{"reason.go": texts(Reasons()), "../health/health.go": texts(health.States())} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range regexp.MustCompile(`(?m)^\t\w+ +(?:Reason|State) += "([^"]+)"`).FindAllSubmatch(source, -1) {
			got = append(got, string(c[1]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-listed +declared):\n%s", file, diff)
		}
	}
}

// Every invariant of New is on the page, and some mutation breaks it.
func TestInvariantsAreDocumented(t *testing.T) {
	source, err := os.ReadFile("new.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/concepts/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## What always holds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	stated := numbers(`(?m)^//   - I(\d+) `, string(source))
	if diff := cmp.Diff(stated, numbers(`(?m)^(\d+)\. \*\*`, section)); diff != "" || len(stated) == 0 {
		t.Errorf("invariants (-code +page):\n%s", diff)
	}
	var broken []string
	for _, m := range mutations {
		if number := strings.TrimPrefix(m.invariant, "I"); !slices.Contains(broken, number) {
			broken = append(broken, number)
		}
	}
	if diff := cmp.Diff(stated, broken); diff != "" {
		t.Errorf("invariants (-code +mutations):\n%s", diff)
	}
}

func numbers(expression, text string) []string {
	var list []string
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}
