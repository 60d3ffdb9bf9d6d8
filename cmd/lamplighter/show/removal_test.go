// SPDX-License-Identifier: Apache-2.0

package show

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// Two passes: what went in the first is told with it, what did not as the last
// one left it.
func TestRemovedTellsWhatBecameOfEachObject(t *testing.T) {
	id := func(name string) inventory.ID {
		id, err := inventory.ParseFormat("ConfigMap/agents/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	pass := func(decisions map[string]inventory.Decision, outcomes ...inventory.Outcome) reconcile.Report {
		var r reconcile.Report
		for name, d := range decisions {
			d.ID = id(name)
			r.Plan.Objects.Prunes = append(r.Plan.Objects.Prunes, []inventory.Decision{d})
		}
		r.Outcomes = outcomes
		return r
	}
	prune := inventory.Decision{Action: inventory.Prune, Reason: inventory.Orphaned}
	first := pass(map[string]inventory.Decision{
		"gone": prune, "slow": prune, "taken": prune, "refused": prune,
		"kept": {Action: inventory.Release, Reason: inventory.InUse, Message: "used by pod agents/other"},
	},
		inventory.Outcome{ID: id("gone"), Result: inventory.ResultPruned},
		inventory.Outcome{ID: id("taken"), Result: inventory.ResultReleased},
		inventory.Outcome{ID: id("kept"), Result: inventory.ResultReleased},
		inventory.Outcome{ID: id("slow"), Result: inventory.ResultDeleting, Err: errors.New("its deletion is not finished yet")},
		inventory.Outcome{ID: id("refused"), Result: inventory.ResultRefused, Err: errors.New("denied")},
	)
	second := pass(map[string]inventory.Decision{
		"slow": {Action: inventory.Release, Reason: inventory.Gone}, "refused": prune,
	},
		inventory.Outcome{ID: id("slow"), Result: inventory.ResultReleased},
		inventory.Outcome{ID: id("refused"), Result: inventory.ResultRefused, Err: errors.New("ConfigMap/agents/refused: denied")},
	)
	second.StillCordoned = errors.New("node n1 stays cordoned: kured")
	var b strings.Builder
	if err := WriteRemoved(&b, NewRemoved(inventory.Instance{Namespace: "lamps", Name: "us"}, []reconcile.Report{first, second})); err != nil {
		t.Fatal(err)
	}
	want := `ConfigMap/agents/gone pruned
ConfigMap/agents/taken released
ConfigMap/agents/kept released: InUse: used by pod agents/other
ConfigMap/agents/slow pruned
ConfigMap/agents/refused refused: denied
node n1 stays cordoned: kured
2 deleted, 2 left in the cluster, 1 still to go
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
