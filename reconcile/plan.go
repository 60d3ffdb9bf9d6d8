// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Observation is everything a plan is made from.
type Observation struct {
	Instance inventory.Instance
	State    State
	// Fleet is the commit in force; nil while none could be read. Then nothing
	// is applied or pruned, and visits go on under Policies.
	Fleet *Fleet
	// Faults keep the fleet out of force: it cannot be applied whole. Then of what
	// it changes nothing is applied or pruned, and visits go on under Policies.
	Faults []inventory.Fault
	// InForce is the fleet that was in force before one with Faults, if this process
	// has seen it; nil otherwise.
	InForce *Fleet
	// Policies are the fleet's or, without one in force, those on record.
	Policies policy.Set
	// Changes compares each object of the fleet with the cluster, and Orphans
	// are what is owned and no longer in it.
	Changes []inventory.Change
	// Order is that of the last plan, which may have been of the same objects.
	Order   *inventory.Order
	Orphans []inventory.Live
	// Strays carry our marks and are neither in the fleet nor owned.
	Strays []inventory.Live
	// Reverted are the DaemonSets that go back: with nil, the template in their
	// change is the one that they go back to; with an error, why that is not known.
	Reverted map[inventory.ID]error
	// Waiting are objects that failed and are not tried again yet.
	Waiting map[inventory.ID]Retry

	Nodes      []health.Node
	DaemonSets []health.DaemonSet
	Pods       []*health.Pod
	UnderWay   map[types.UID]bool // see [rollout.Observed]
	Queued     map[types.UID]bool // see [rollout.Observed]

	Answers  rollout.Answers
	Supposed bool // see [rollout.Observed]

	// Adoption says which objects that exist already may become ours.
	Adoption   inventory.Adoption
	AllowPrune bool
	Drift      inventory.DriftMode
	// ClockProblem says why this machine's clock is not to be trusted; empty
	// when nothing is known against it.
	ClockProblem string
}

// Plan is every decision of one pass: one for each object, and one for each
// node of each policy.
type Plan struct {
	Objects inventory.Plan
	Rollout rollout.Plan
	// NextLook is the earliest instant at which time alone changes a decision;
	// zero when it never does.
	NextLook time.Time
}

// New decides. It is a function of its arguments.
func New(obs Observation, now time.Time) (Plan, error) {
	var plan Plan
	if obs.Fleet != nil {
		vetoed := vetoes(obs, now)
		objects, err := inventory.New(inventory.Input{
			Instance:   obs.Instance,
			Adoption:   obs.Adoption,
			Owned:      obs.State.Inventory,
			Changes:    obs.Changes,
			Order:      obs.Order,
			Orphans:    obs.Orphans,
			Strays:     obs.Strays,
			Vetoes:     vetoed,
			References: references(obs, vetoed),
			Reverted:   marks(obs),
			Faults:     obs.Faults,
			AllowPrune: obs.AllowPrune,
			Guarded:    obs.State.Record.Guarded,
			Drift:      obs.Drift,
		})
		if err != nil {
			return Plan{}, fmt.Errorf("objects: %w", err)
		}
		plan.Objects = objects
	} else {
		plan.Objects.Next = obs.State.Inventory
	}
	ledger := obs.State.Ledger
	if obs.ClockProblem == "" {
		ledger = ledger.NotAfter(now)
	}
	plan.Rollout = rollout.New(rollout.Observed{
		Nodes:      obs.Nodes,
		DaemonSets: daemonSets(obs),
		Pods:       obs.Pods,
		UnderWay:   obs.UnderWay,
		Queued:     obs.Queued,
		Ledger:     ledger,
		Commit:     obs.commit().Hash,
		Instance:   obs.Instance.ID(),
		Rendered:   renderedTemplates(obs),

		ClockProblem: obs.ClockProblem,
		Answers:      obs.Answers,
		Supposed:     obs.Supposed,
	}, obs.Policies.Upgrades, now)
	// Only now: a ledger that knows who governs is not taken for one that was lost.
	plan.Rollout.Ledger = plan.Rollout.Ledger.Govern(obs.Policies, liveDaemonSets(obs)...)
	plan.NextLook = earliest(now, plan.Rollout.NextLook, plan.Objects.Earliest())
	return plan, nil
}

// inForce says that the fleet is what the cluster is to be like.
func (obs Observation) inForce() bool { return obs.Fleet != nil && len(obs.Faults) == 0 }

// commit is the commit in force: the fleet's, or the one on record.
func (obs Observation) commit() Commit {
	if obs.inForce() {
		return obs.Fleet.Commit
	}
	return obs.State.Record.Commit
}

// daemonSets marks those whose template in Git is not the live one yet, since
// their nodes would be visited twice, and holds those that are another
// inventory's: its policy says when they may be disturbed.
func daemonSets(obs Observation) []health.DaemonSet {
	changes := map[inventory.ID]inventory.Change{}
	for _, c := range obs.Changes {
		if c.ID.GroupKind == daemonSetKind {
			changes[c.ID] = c
		}
	}
	noted := map[string]bool{}
	if !obs.inForce() { // then the record says what is not as Git says
		for _, n := range obs.State.Record.Objects {
			noted[n.Object] = n.aboutTemplate()
		}
	}
	marked := reversals(obs)
	out := make([]health.DaemonSet, len(obs.DaemonSets))
	for i, d := range obs.DaemonSets {
		id := daemonSetID(d.Name)
		c := changes[id]
		_, back := marked[id]
		d.TemplatePending = noted[inventory.Format(id)] || (obs.inForce() || back) && c.Kind != inventory.None && (c.TemplateChanged || c.Err != nil)
		if c.Owner != "" && c.Owner != obs.Instance.ID() {
			d.Hold = "owned by inventory " + c.Owner
		}
		out[i] = d
	}
	return out
}

// earliest is the first of the instants that are after now; zero if none is.
func earliest(now time.Time, instants ...time.Time) time.Time {
	var first time.Time
	for _, t := range instants {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
