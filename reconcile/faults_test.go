// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/inventory"
)

func rejected(id inventory.ID) inventory.Change {
	c := created(id)
	c.Err = &inventory.RejectedError{Message: "is not valid"}
	return c
}

// Its template does not come, so the nodes are not spared for it.
func TestVisitsGoOnWhileACommitIsRefused(t *testing.T) {
	obs := observe(t, governed)
	obs.Pods[0].Hash = "older"
	obs.Changes = []inventory.Change{templateChange(t), rejected(configMap("bad"))}
	obs.Faults = faults(obs, false)
	plan := mustPlan(t, obs, open)
	want := map[string]string{"ConfigMap/agents/bad": "Refuse Rejected", "DaemonSet/agents/cni": "Hold CommitRefused"}
	if diff := cmp.Diff(want, objectDecisions(plan)); diff != "" {
		t.Error(diff)
	}
	if got := evictionCount(plan); got != 1 {
		t.Errorf("%d evictions, want 1", got)
	}
}

// A template that was held when the commit came still is to come.
func TestTemplateOfTheCommitInForceIsWaitedForWhileTheNextIsRefused(t *testing.T) {
	obs := observe(t, governed)
	obs.Pods[0].Hash = "older"
	obs.Changes = []inventory.Change{templateChange(t), rejected(configMap("bad"))}
	obs.Faults = faults(obs, false)
	obs.State.Record.Objects = []ObjectNote{{Object: "DaemonSet/agents/cni", Action: "Hold", Reason: "WindowShut"}}
	if got := evictionCount(mustPlan(t, obs, open)); got != 0 {
		t.Errorf("%d evictions, want none", got)
	}
}

func TestWhatSpeaksAgainstACommit(t *testing.T) {
	const hash = "9f2c1e7a00000000000000000000000000000000"
	for name, tt := range map[string]struct {
		commit, inForce string
		partial         bool
		want            string
	}{
		"a new commit":                       {commit: hash, want: "commit 9f2c1e7 not applied: ConfigMap/agents/a: is not valid (and 1 more)"},
		"a commit after another":             {commit: hash, inForce: "other", want: "commit 9f2c1e7 not applied: ConfigMap/agents/a: is not valid (and 1 more)"},
		"the commit in force":                {commit: hash, inForce: hash},
		"a working tree":                     {want: "nothing applied: ConfigMap/agents/a: is not valid (and 1 more)"},
		"a new commit, of which some may do": {commit: hash, partial: true},
	} {
		obs := observe(t, governed)
		obs.Fleet.Commit.Hash, obs.State.Record.Commit.Hash = tt.commit, tt.inForce
		obs.Changes = []inventory.Change{rejected(configMap("b")), unchanged(configMap("c")), rejected(configMap("a"))}
		obs.Faults = faults(obs, tt.partial)
		got := ""
		if err := obs.Refused(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
