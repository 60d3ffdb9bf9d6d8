// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

// vetoes says which objects must be left as they are for now: DaemonSets that
// wait for a window, everything while a freeze of that scope is in force, and
// what failed and is not tried again yet.
func vetoes(obs Observation, now time.Time) map[inventory.ID]inventory.Veto {
	out := map[inventory.ID]inventory.Veto{}
	frozen := obs.Policies.Everything().At(now).Any()
	rules := rollout.Rules{Policies: obs.Policies, Ledger: obs.State.Ledger, ClockProblem: obs.ClockProblem}
	marked, changes := reversals(obs), map[inventory.ID]inventory.Change{}
	for _, c := range obs.Changes {
		if _, back := marked[c.ID]; back {
			changes[c.ID] = c
		}
	}
	for id, kind := range changeKinds(obs) {
		change := rollout.Change{Kind: kind}
		if id.GroupKind == daemonSetKind {
			change.DaemonSet = daemonSetName(id)
		}
		if frozen.Frozen && !rollout.Unfreezes(change, rules, now) {
			out[id] = inventory.Veto{Reason: inventory.Reason(rollout.Frozen), Until: frozen.ValidUntil, Message: frozen.Explain()}
			continue
		}
		if mark, marked := marked[id]; marked {
			if wrong := wrongReversal(obs, changes[id]); wrong != "" {
				out[id] = inventory.Veto{Reason: inventory.Reverted, Message: mark.String() + "; it does not: " + wrong}
				continue
			}
		}
		if retry, waits := obs.Waiting[id]; waits {
			out[id] = inventory.Veto{Reason: retry.Reason, Until: retry.At, Message: retry.Message}
			continue
		}
		if id.GroupKind != daemonSetKind {
			continue
		}
		if v := rollout.Gate(change, rules, now); !v.Allowed {
			out[id] = inventory.Veto{Reason: inventory.Reason(v.Reason), Until: v.Until, Message: v.Message}
		}
	}
	return out
}

// unvetoed turns the decisions that have come to be vetoed since they were made
// into holds.
func unvetoed(obs Observation, step []inventory.Decision, now time.Time) []inventory.Decision {
	late := vetoes(obs, now)
	out := slices.Clone(step)
	for i := range out {
		d := &out[i]
		if v, vetoed := late[d.ID]; vetoed && d.Action.Acts() {
			d.Action, d.Reason, d.Until, d.Message = inventory.Hold, v.Reason, v.Until, v.Message
		}
	}
	return out
}

// changeKinds names what would happen to each object that is not as it should
// be.
func changeKinds(obs Observation) map[inventory.ID]rollout.ChangeKind {
	kinds := map[inventory.ID]rollout.ChangeKind{}
	for _, c := range obs.Changes {
		switch {
		case c.Kind == inventory.None:
		case c.Kind == inventory.Create:
			kinds[c.ID] = rollout.Create
		case c.Kind == inventory.Replace:
			kinds[c.ID] = rollout.Recreate
		case c.TemplateChanged && placementChanged(c):
			kinds[c.ID] = rollout.PlacementChange
		case c.TemplateChanged:
			kinds[c.ID] = rollout.TemplateChange
		default:
			kinds[c.ID] = rollout.Update
		}
	}
	for _, o := range obs.Orphans {
		kinds[o.ID] = rollout.Delete
	}
	return kinds
}

func daemonSetName(id inventory.ID) types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}

func daemonSetID(name types.NamespacedName) inventory.ID {
	return inventory.ID{GroupKind: daemonSetKind, Namespace: name.Namespace, Name: name.Name}
}
