// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Removal says how an instance ends. The zero Removal deletes what it owns, inside
// the windows.
type Removal struct {
	// Orphan leaves all objects in the cluster, without our marks.
	Orphan bool
	// IgnoreWindows ends pods whatever windows and freezes say.
	IgnoreWindows bool
}

// PlanRemoval says what becomes of each object of an instance that ends. It is a
// function of its arguments, and of the observation reads what the instance owns,
// the policies on record and the cluster.
//
// What somebody else still needs is released instead of deleted: a namespace with
// objects that are not ours, a definition with such objects of its kind, what a
// DaemonSet that stays mentions. DaemonSets wait for a window as ever.
func PlanRemoval(obs Observation, how Removal, now time.Time) (inventory.Plan, error) {
	return planRemoval(obs, how, nil, now)
}

func planRemoval(obs Observation, how Removal, used map[inventory.ID][]string, now time.Time) (inventory.Plan, error) {
	return inventory.New(inventory.Input{
		Instance:   obs.Instance,
		Owned:      obs.State.Inventory,
		Orphans:    obs.Orphans,
		Strays:     obs.Strays,
		Vetoes:     removalVetoes(obs, how, now),
		References: used,
		Kept:       kept(obs, how),
		AllowPrune: true,
		Ends:       true,
	})
}

// removalVetoes are those of any deletion. Taking our marks off ends no pod, so
// only a freeze of everything speaks against it.
func removalVetoes(obs Observation, how Removal, now time.Time) map[inventory.ID]inventory.Veto {
	if how.IgnoreWindows {
		return nil
	}
	vetoed := vetoes(obs, now)
	if obs.Policies.Everything().At(now).Any().Frozen {
		return vetoed
	}
	for _, o := range obs.Orphans {
		if how.Orphan || inventory.StaysOnRemoval(o.Annotations) {
			delete(vetoed, o.ID)
		}
	}
	return vetoed
}

// kept says what is let go, and why: everything, if that is wanted, else the
// namespace in which the instance remembers what it still has to do, and what is
// needed by DaemonSets that stay.
func kept(obs Observation, how Removal) map[inventory.ID]inventory.Veto {
	out := map[inventory.ID]inventory.Veto{}
	if how.Orphan {
		for _, o := range slices.Concat(obs.Orphans, obs.Strays) {
			out[o.ID] = inventory.Veto{Reason: inventory.Detached}
		}
		return out
	}
	for id, users := range references(staying(obs), nil) {
		slices.Sort(users)
		out[id] = inventory.Veto{Reason: inventory.InUse, Message: "used by " + users[0]}
	}
	own := inventory.ID{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: obs.Instance.Namespace}
	out[own] = inventory.Veto{Reason: inventory.NamespaceNotEmpty, Message: "it is the instance's own"}
	return out
}

// staying is what would be seen of the cluster after the removal. Nobody goes
// back to an older revision then.
func staying(obs Observation) Observation {
	goes := map[types.NamespacedName]bool{}
	for _, o := range obs.Orphans {
		if o.ID.GroupKind == daemonSetKind && o.Annotations[inventory.OwnerAnnotation] == obs.Instance.ID() && !inventory.StaysOnRemoval(o.Annotations) {
			goes[daemonSetName(o.ID)] = true
		}
	}
	stays := map[types.UID]bool{}
	out := withoutRollout(obs)
	out.DaemonSets, out.Pods = nil, nil
	for _, d := range obs.DaemonSets {
		if !goes[d.Name] && !d.Deleting {
			d.RevisionObserved = true // what it mentions now counts, nothing is held for what it may
			out.DaemonSets = append(out.DaemonSets, d)
			stays[d.UID] = true
		}
	}
	for _, p := range obs.Pods {
		if stays[p.Owner] {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}

func withoutRollout(obs Observation) Observation {
	obs.Policies, obs.State.Ledger = policy.Set{}, rollout.Ledger{}
	return obs
}

// ObserveRemoval does every read of a removal.
func (r *Reconciler) ObserveRemoval(ctx context.Context) (Observation, error) {
	obs, err := r.Observe(ctx, Source{})
	if err != nil {
		return Observation{}, err
	}
	if obs.Orphans, err = r.opts.Cluster.Orphans(ctx, obs.State.Inventory.IDs()); err != nil {
		return Observation{}, err
	}
	if obs.Strays, err = r.strays(ctx); err != nil {
		return Observation{}, err
	}
	if r.opts.Clock != nil && obs.ClockProblem == "" {
		obs.ClockProblem = r.opts.Clock.Confirm(ctx) // pods end by it
	}
	obs.Nodes, obs.DaemonSets, obs.Pods = r.opts.Cluster.Snapshot() // a DaemonSet that was seen to be gone has let go of its pods
	return obs, nil
}

// Remove brings the end of an instance one step closer: it deletes or releases
// what may go now, and gives nodes back. What pods still mention waits for them.
// All of it is on record already, and an entry is dropped only on proof, so a
// process that dies is followed by one that goes on.
func (r *Reconciler) Remove(ctx context.Context, how Removal) (Report, error) {
	obs, err := r.ObserveRemoval(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("observe: %w", err)
	}
	var used map[inventory.ID][]string
	if !how.Orphan {
		used = references(withoutRollout(obs), nil)
	}
	report := Report{Observation: obs, Before: obs.State, After: obs.State}
	if report.Plan.Objects, err = planRemoval(obs, how, used, r.opts.Now()); err != nil {
		return report, fmt.Errorf("plan: %w", err)
	}
	report.StillCordoned = r.giveBack(ctx, obs)
	if r.opts.Jobs != nil {
		report.StopErr = r.opts.Jobs.StopJobs(ctx, nil)
	}
	review := func(step []inventory.Decision) []inventory.Decision {
		if how.IgnoreWindows {
			return step
		}
		return unvetoed(r.doubted(obs), step, r.opts.Now())
	}
	report.Outcomes = r.opts.Cluster.Prune(ctx, report.Plan.Objects.Prunes, review)
	report.After.Inventory = obs.State.Inventory.Settle(report.Outcomes)
	report.After.Record.Objects = append(notes(report.Plan.Objects), troubles(report.Plan.Objects, report.Outcomes)...)
	if err := r.save(ctx, report.After); err != nil {
		return report, fmt.Errorf("record outcomes: %w", err)
	}
	return report, nil
}

// giveBack takes the cordons of all visits off. Nobody would later.
func (r *Reconciler) giveBack(ctx context.Context, obs Observation) error {
	var (
		cordons []rollout.Uncordon
		busy    []string
	)
	for _, n := range obs.Nodes {
		switch name, ours := strings.CutPrefix(n.CordonedBy, rollout.CordonMark(obs.Instance.ID(), "")); {
		case !ours:
		case n.AtWork:
			busy = append(busy, fmt.Sprintf("node %s stays cordoned: %s", n.Name, n.Maintenance))
		default:
			cordons = append(cordons, rollout.Uncordon{Node: n.Name, Policy: name, MarkOnly: !n.Unschedulable})
		}
	}
	err := r.takeOff(ctx, cordons)
	for _, b := range busy {
		err = errors.Join(err, errors.New(b))
	}
	return err
}
