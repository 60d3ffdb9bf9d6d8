// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

func TestPlacementIsToldFromTheRestOfATemplate(t *testing.T) {
	live := map[string]any{"nodeSelector": map[string]any{"gpu": "true"}, "tolerations": []any{map[string]any{"operator": "Exists"}}, "hostNetwork": true}
	for name, test := range map[string]struct {
		merged map[string]any
		want   rollout.ChangeKind
	}{
		"another network":     {map[string]any{"nodeSelector": live["nodeSelector"], "tolerations": live["tolerations"], "hostNetwork": false}, rollout.TemplateChange},
		"no toleration":       {map[string]any{"nodeSelector": live["nodeSelector"], "hostNetwork": true}, rollout.PlacementChange},
		"another selector":    {map[string]any{"nodeSelector": map[string]any{"gpu": "false"}, "tolerations": live["tolerations"]}, rollout.PlacementChange},
		"an affinity as well": {map[string]any{"nodeSelector": live["nodeSelector"], "tolerations": live["tolerations"], "affinity": map[string]any{}}, rollout.PlacementChange},
	} {
		c := templateChange(t)
		c.Live, c.Merged = object(c.ID), object(c.ID)
		c.Live.Object["spec"] = map[string]any{"template": map[string]any{"spec": live}}
		c.Merged.Object["spec"] = map[string]any{"template": map[string]any{"spec": test.merged}}
		if got := changeKinds(Observation{Changes: []inventory.Change{c}})[c.ID]; got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
