// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/inventory"
)

// The record has to fit into a ConfigMap, whatever a commit says or somebody does
// to an object: what cannot be recorded is not done.
func TestWhatIsSaidOfACommitFitsIntoTheRecord(t *testing.T) {
	w := &world{objects: map[string]string{}}
	src := source(map[string]string{"a": "1"})
	src.Err = errors.New("fleet.yaml: " + strings.Repeat("ä", 1<<20))
	report, err := w.process().Pass(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	got := report.After.Record.Problem
	if len(got) > 8<<10 || !strings.HasPrefix(got, "fleet.yaml: ää") || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%d bytes, which begin with %.20s", len(got), got)
	}
}

func TestManyChangedFieldsAreNotedByWhatTheyAreIn(t *testing.T) {
	few := []string{".data.a", ".metadata.labels.b"}
	if diff := cmp.Diff(few, noted(few)); diff != "" {
		t.Errorf("few (-want +got):\n%s", diff)
	}
	many := []string{`.webhooks[name="a"].rules`, ".spec.template.metadata"}
	for i := range 10000 {
		many = append(many, fmt.Sprintf(".metadata.annotations.example.com/%05d", i))
	}
	if diff := cmp.Diff([]string{".metadata", ".spec", ".webhooks"}, noted(many)); diff != "" {
		t.Errorf("many (-want +got):\n%s", diff)
	}
	if n := (ObjectNote{Reason: string(inventory.Drifted), Fields: noted(many)}); !n.aboutTemplate() {
		t.Error("the pod template may be another, and that is not known any more")
	}
}
