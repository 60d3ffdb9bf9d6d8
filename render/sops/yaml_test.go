// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// Whatever a value was, it is read again as what it was.
func TestTextIsWrittenAsItIs(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("a \n\t\r:#-'\"é\u2028\u0085\ufeff01")), 0, 12, -1))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		n := &yaml.Node{Kind: yaml.ScalarNode}
		if err := setScalar(n, s); err != nil {
			t.Fatal(err)
		}
		list := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "key"}, n, {Kind: yaml.ScalarNode, Value: "next"}, n}}
		data, err := writeYAML([]*yaml.Node{{Kind: yaml.DocumentNode, Content: []*yaml.Node{list}}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		if err := yaml.Unmarshal(data, &got); err != nil {
			t.Fatalf("%v:\n%s", err, data)
		}
		if got["key"] != s || got["next"] != s {
			t.Errorf("%q becomes %q and %q:\n%s", s, got["key"], got["next"], data)
		}
	})
}
