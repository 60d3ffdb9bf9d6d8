// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
)

func TestHiddenFieldsAreReadBack(t *testing.T) {
	paths := [][]string{{"data", "*"}, {"spec", "a/b~c,d e", "*", "value"}, {"spec", "tokens", "*"}}
	rendered := objectOf(parse(t, "ConfigMap/ns/a"))
	marked, err := inventory.MarkHidden(rendered, paths)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(paths, inventory.HiddenIn(marked)); diff != "" {
		t.Error(diff)
	}
	if got := inventory.HiddenIn(rendered); got != nil {
		t.Errorf("the rendered object has changed: %v", got)
	}
}

func TestTooManyHiddenFieldsAreNamedByWhatTheyAreIn(t *testing.T) {
	var paths [][]string
	for i := range 10000 {
		paths = append(paths, []string{"spec", "tokens", fmt.Sprint("token-", i)})
	}
	marked, err := inventory.MarkHidden(objectOf(parse(t, "ConfigMap/ns/a")), paths)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"spec", "tokens"}}, inventory.HiddenIn(marked)); diff != "" {
		t.Error(diff)
	}
}

func TestWordThatNamesNothingHidesEverything(t *testing.T) {
	for _, word := range []string{"", "null", "[]", "{}", "[1]", `["data"]`, `["/data", ""]`, "/data"} {
		live := &unstructured.Unstructured{}
		live.SetAnnotations(map[string]string{inventory.EncryptedAnnotation: word})
		if diff := cmp.Diff([][]string{{"*"}}, inventory.HiddenIn(live)); diff != "" {
			t.Errorf("%q: %s", word, diff)
		}
	}
}
