// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
)

// canary is in every value of a Secret that the property makes up.
const canary = "CANARY"

// No value of a Secret is in a diff, whatever shape it has on either side: what
// the API server would refuse is shown before it can refuse it.
func TestNoSecretIsEverShown(t *testing.T) {
	id, err := inventory.ParseFormat("Secret/agents/token")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		live, merged := secret().Draw(t, "live"), secret().Draw(t, "merged")
		if rapid.Bool().Draw(t, "new") {
			live = nil
		}
		step := []inventory.Decision{{ID: id, Action: inventory.Apply, Reason: inventory.Changed}}
		diff := newDiff(t, step, []inventory.Change{changeOf(id, object(live), object(merged))})
		var text, json, yaml strings.Builder
		for _, err := range []error{
			show.WriteDiff(&text, diff, show.Options{Color: true}), show.JSON(&json, diff), show.YAML(&yaml, diff),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if out := text.String() + json.String() + yaml.String(); strings.Contains(out, canary) {
			t.Fatalf("a value is shown:\n%s", out)
		}
	})
}

// secret makes up a Secret, right or wrong.
func secret() *rapid.Generator[map[string]any] {
	word := rapid.StringMatching(`[-a-z:'"\n ]{0,3}`)
	text := rapid.Custom(func(t *rapid.T) any { return word.Draw(t, "before") + canary + word.Draw(t, "after") })
	value := rapid.OneOf(text, text, text,
		rapid.Custom(func(t *rapid.T) any { return map[string]any{"key": text.Draw(t, "value")} }),
		rapid.Custom(func(t *rapid.T) any { return []any{text.Draw(t, "item")} }),
		rapid.Just[any](nil))
	key := rapid.SampledFrom([]string{"a", "b", ".c", "d-e"})
	field := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.MapOf(key, value).Draw(t, "values") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.MapOf(key, value).Draw(t, "values") }),
		value)
	return rapid.Custom(func(t *rapid.T) map[string]any {
		s := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "token", "namespace": "agents"}}
		for _, name := range []string{"data", "stringData"} {
			if rapid.Bool().Draw(t, "has "+name) {
				s[name] = field.Draw(t, name)
			}
		}
		return s
	})
}

// Nor is what is encrypted in Git, wherever it is.
func TestHiddenFieldsAreNotShown(t *testing.T) {
	live := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"same":"CANARY","old":"CANARY1","gone":"CANARY"},"list":[{"name":"x","value":"CANARY"},{"name":"y","value":"CANARY3"}]}`
	merged := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"same":"CANARY","old":"CANARY2","new":"CANARY"},"list":[{"name":"z","value":"CANARY2"}]}`
	id, err := inventory.ParseFormat("ConfigMap/agents/a")
	if err != nil {
		t.Fatal(err)
	}
	c := changeOf(id, parsed(t, live), parsed(t, merged))
	c.Hidden = [][]string{{"data", "*"}, {"list", "*", "value"}, {"spec", "nothing", "there"}}
	diff := newDiff(t, []inventory.Decision{{ID: id, Action: inventory.Apply, Reason: inventory.Changed}}, []inventory.Change{c})
	got := diff.Objects[0]
	if text := got.Diff + got.Live + got.Merged; strings.Contains(text, canary) {
		t.Errorf("a value is shown:\n%s", text)
	}
	for _, want := range []string{"-  gone: '***'\n", "+  new: '***'\n", "-  old: '*** (before)'\n", "+  old: '*** (after)'\n", "-- name: x\n", "+- name: z\n", "   same: '***'\n"} {
		if !strings.Contains(got.Diff, want) {
			t.Errorf("%q is not in\n%s", want, got.Diff)
		}
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}
