// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
)

// decision is a decision, as a case writes it.
type decision struct {
	Object, Action, Reason, Message string
	Until                           time.Time
}

func (d decision) decode(t *testing.T) inventory.Decision {
	t.Helper()
	id, err := inventory.ParseFormat(d.Object)
	if err != nil {
		t.Fatal(err)
	}
	return inventory.Decision{
		ID: id, Action: inventory.Action(d.Action), Reason: inventory.Reason(d.Reason), Message: d.Message, Until: d.Until,
	}
}

func TestDiffText(t *testing.T) {
	golden(t, "diff", func(t *testing.T, f fixture) string {
		var in struct {
			Color   bool
			Changes []struct {
				decision
				Live, Merged map[string]any
			}
		}
		f.decode(t, "changes.yaml", &in)
		var step []inventory.Decision
		var changes []inventory.Change
		for _, c := range in.Changes {
			d := c.decode(t)
			step = append(step, d)
			if c.Merged != nil {
				changes = append(changes, changeOf(d.ID, object(c.Live), object(c.Merged)))
			}
		}
		var b strings.Builder
		if err := show.WriteDiff(&b, newDiff(t, step, changes), show.Options{Color: in.Color}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

// failer is a test, or a check of a property.
type failer interface {
	Helper()
	Fatal(...any)
}

func newDiff(t failer, step []inventory.Decision, changes []inventory.Change) show.Diff {
	t.Helper()
	diff, err := show.NewDiff(inventory.Plan{Steps: [][]inventory.Decision{step}}, changes)
	if err != nil {
		t.Fatal(err)
	}
	return diff
}

func changeOf(id inventory.ID, live, merged *unstructured.Unstructured) inventory.Change {
	kind := inventory.Update
	if live == nil {
		kind = inventory.Create
	}
	return inventory.Change{ID: id, Kind: kind, Live: live, Merged: merged}
}

func object(content map[string]any) *unstructured.Unstructured {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}
