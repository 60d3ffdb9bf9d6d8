// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// reverted is a cluster whose DaemonSet went back from what Git has.
func reverted(t *testing.T) Observation {
	t.Helper()
	obs := observe(t, governed)
	obs.Policies.Upgrades[0].OnFailure = policy.Revert
	ds := object(daemonSetID(agents))
	ds.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"nodeName": "bad"}}}
	obs.Fleet.Objects = []*unstructured.Unstructured{ds}
	obs.Fleet.Commit.Hash = "0123456789"
	obs.State.Inventory = inventory.NewSet(daemonSetID(agents), configMap("a"), configMap("b"))
	obs.State.Ledger.Reversals = []rollout.Reversal{{
		Policy: "network", DaemonSet: agents.String(), Commit: "0123456789", Template: templateDigest(ds), From: "bad", To: "live", Reason: "it broke",
	}}
	obs.Changes = []inventory.Change{unchanged(daemonSetID(agents)), unchanged(configMap("a")), unchanged(configMap("b"))}
	obs.Reverted = map[inventory.ID]error{daemonSetID(agents): nil}
	return obs
}

func TestRevertedDaemonSetIsNeverAsGitSays(t *testing.T) {
	plan := mustPlan(t, reverted(t), open)
	if got := objectDecisions(plan)["DaemonSet/agents/cni"]; got != "Hold Reverted" {
		t.Errorf("decided %s, want Hold Reverted", got)
	}
	noted := notes(plan.Objects)
	if len(noted) != 1 || !noted[0].Failed() || !strings.HasPrefix(noted[0].Message, "commit 0123456 is marked bad") {
		t.Errorf("noted %+v", noted)
	}
	if len(plan.Rollout.Ledger.Reversals) != 1 {
		t.Error("the mark is gone though Git has the bad template")
	}
}

func TestBadTemplateIsNotAppliedWhenTheOldOneIsNotKnown(t *testing.T) {
	obs := reverted(t)
	obs.Reverted[daemonSetID(agents)] = errors.New("revision live of agents/cni is gone")
	obs.Changes[0] = templateChange(t)
	if got := objectDecisions(mustPlan(t, obs, open))["DaemonSet/agents/cni"]; got != "Hold Reverted" {
		t.Errorf("decided %s, want Hold Reverted", got)
	}
}

func TestMarkEndsWithTheTemplateInGit(t *testing.T) {
	obs := reverted(t)
	obs.State.Ledger.Reversals[0].Template = "of another template"
	obs.Changes[0], obs.Reverted = templateChange(t), nil
	plan := mustPlan(t, obs, open)
	if got := objectDecisions(plan)["DaemonSet/agents/cni"]; got != "Apply Changed" {
		t.Errorf("decided %s, want Apply Changed", got)
	}
	if marks := plan.Rollout.Ledger.Reversals; len(marks) != 0 {
		t.Errorf("still marked: %+v", marks)
	}
}

func TestMarkOutlivesACommitThatIsRefused(t *testing.T) {
	obs := reverted(t)
	obs.State.Ledger.Reversals[0].Template = "of another template"
	obs.Faults = []inventory.Fault{{}}
	if marks := mustPlan(t, obs, open).Rollout.Ledger.Reversals; len(marks) != 1 {
		t.Error("the mark is gone with a commit that is not in force")
	}
}

func TestWhatARevisionNamesIsKeptWhileADaemonSetMayGoBack(t *testing.T) {
	for name, test := range map[string]struct {
		onFailure policy.OnFailure
		want      string
	}{
		"it may":     {policy.Revert, "Hold InUse"},
		"it may not": {policy.Halt, "Prune Orphaned"},
	} {
		t.Run(name, func(t *testing.T) {
			obs := reverted(t)
			obs.Policies.Upgrades[0].OnFailure = test.onFailure
			obs.State.Ledger.Reversals = nil
			obs.State.Inventory = obs.State.Inventory.With(configMap("old"))
			obs.State.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Settled: "old"}}
			obs.DaemonSets[0].History = []health.Revision{{Hash: "old", References: []inventory.ID{configMap("old")}}}
			obs.Orphans = []inventory.Live{{ID: configMap("old"), UID: "old", Annotations: owned}}
			if got := objectDecisions(mustPlan(t, obs, open))["ConfigMap/agents/old"]; got != test.want {
				t.Errorf("decided %s, want %s", got, test.want)
			}
		})
	}
}

// What is refused is the newer commit, not the one that is marked bad.
func TestDaemonSetGoesBackWhileANewerCommitIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		seen bool // the fleet in force, by this process
		want string
	}{
		"that was in force before":    {true, "Apply Reverted"},
		"that is the first one known": {false, "Hold CommitRefused"},
	} {
		t.Run(name, func(t *testing.T) {
			obs := reverted(t)
			if test.seen {
				obs.InForce = obs.Fleet
			}
			newer := object(daemonSetID(agents))
			newer.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"nodeName": "cure"}}}
			obs.Fleet = &Fleet{Commit: Commit{Hash: "fedcba9876"}, Objects: []*unstructured.Unstructured{newer}}
			obs.Faults = []inventory.Fault{{}}
			obs.Changes[0] = templateChange(t)
			obs.Changes[1].Kind = inventory.Update
			got := objectDecisions(mustPlan(t, obs, open))
			if got["DaemonSet/agents/cni"] != test.want {
				t.Errorf("decided %s, want %s", got["DaemonSet/agents/cni"], test.want)
			}
			if other := got["ConfigMap/agents/a"]; other != "Hold CommitRefused" {
				t.Errorf("another object of the refused commit: %s", other)
			}
		})
	}
}
