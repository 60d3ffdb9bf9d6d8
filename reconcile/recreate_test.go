// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"lamplighter.dev/inventory"
)

// replacement is a DaemonSet that has to be re-created.
func replacement(t *testing.T) inventory.Change {
	t.Helper()
	c := templateChange(t)
	c.Kind, c.UID, c.Immutable = inventory.Replace, "ds", []string{"spec.selector"}
	return c
}

func TestDaemonSetIsReCreatedInItsWindowOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		policies string
		at       time.Time
		want     string
	}{
		"while shut":                        {governed, shut, "Hold WindowShut until 2026-12-01T10:00:00Z"},
		"while open":                        {governed, open, "Recreate Immutable"},
		"whatever the policy's templates":   {governed + "  templates: Immediately\n", shut, "Hold WindowShut until 2026-12-01T10:00:00Z"},
		"of a policy that froze":            {governed + "---\napiVersion: lamplighter.dev/v1alpha1\nkind: Freeze\nmetadata: {name: year-end}\nspec: {start: 2026-12-01T10:00:30Z, end: 2026-12-02T00:00:00Z, reason: audit}\n", open, "Hold Frozen"},
		"in no policy and never in any one": {"", shut, "Recreate Immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			obs := observe(t, tt.policies)
			obs.Changes = []inventory.Change{replacement(t)}
			plan := mustPlan(t, obs, tt.at)
			if got := objectDecisions(plan)["DaemonSet/agents/cni"]; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := tt.want == "Recreate Immutable"; got != plan.Objects.Next.Contains(daemonSetID(agents)) {
				t.Errorf("in the inventory that is recorded before: %t, want %t", !got, got)
			}
			if got := evictionCount(plan); got != 0 {
				t.Errorf("%d evictions of pods that go with it", got)
			}
		})
	}
}

// A window that shuts while earlier steps are carried out holds it, too.
func TestReCreationThatIsLateIsHeld(t *testing.T) {
	obs := observe(t, governed)
	obs.Changes = []inventory.Change{replacement(t)}
	plan := mustPlan(t, obs, open)
	for _, step := range unvetoed(obs, plan.Objects.Steps[0], open.Add(time.Hour)) {
		if step.Action != inventory.Hold {
			t.Errorf("got %s, want it held", step.Action)
		}
	}
}

// Something may change the field back as the object is created.
func TestReCreatingAgainAndAgainIsAFight(t *testing.T) {
	f, now := fights{}, shut
	c := replacement(t)
	plan := inventory.Plan{Steps: [][]inventory.Decision{{{ID: c.ID, Action: inventory.Recreate, Reason: inventory.Immutable, Object: c.Object}}}}
	for range maxCorrections + 1 {
		if waiting := f.due([]inventory.Change{c}, now); len(waiting) > 0 {
			t.Fatalf("left alone too soon: %v", waiting)
		}
		f.note(plan, []inventory.Outcome{{ID: c.ID, Result: inventory.ResultRecreated}}, now)
		now = now.Add(time.Second)
	}
	if got := f.due([]inventory.Change{c}, now)[c.ID].Reason; got != inventory.Fighting {
		t.Errorf("got %q, want Fighting", got)
	}
}
