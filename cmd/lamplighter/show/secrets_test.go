// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"

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
