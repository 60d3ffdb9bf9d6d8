// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Input is everything a plan is made from.
type Input struct {
	Instance Instance
	// Adoption says which objects that exist already may become ours.
	Adoption Adoption
	// Owned is the inventory as it was read.
	Owned Set
	// Changes compares every rendered object with the cluster.
	Changes []Change
	// Order is that of an earlier plan. If it is of the same objects, it need not
	// be found out again; else it does not matter.
	Order *Order
	// Orphans describes every object that is owned and not rendered. One that
	// is missing here is held: what has not been looked at is not deleted.
	Orphans []Live
	// Strays carry our marks and are neither rendered nor owned: the inventory was
	// lost, or they were copied from something that is.
	Strays []Live
	// Vetoes hold objects for reasons of the caller's.
	Vetoes map[ID]Veto
	// References says by what an object is still used: the prune guard.
	References map[ID][]string
	// Reverted says of objects that the caller has put something else in the place
	// of what Git says, and why. They never count as being as Git says, and no Faults
	// hold them: that is not of the commit.
	Reverted map[ID]string
	// Faults keep the commit out of force: of what it changes nothing is applied
	// or pruned. What somebody else has changed is still corrected.
	Faults []Fault
	// AllowPrune lifts the guards against an empty render and a mass deletion.
	AllowPrune bool
	// Guarded is what the plan before said of it.
	Guarded int
	// Ends says that the instance ends: what would be held for ever, since
	// something else that stays needs it, is released instead.
	Ends bool
	// Kept are objects that are released instead of pruned, and why.
	Kept map[ID]Veto
	// Drift says what becomes of what somebody else has changed. Empty corrects
	// it.
	Drift DriftMode
}

// DriftMode says what becomes of an object that was as Git says and that
// somebody has changed, or deleted, since.
type DriftMode string

// The modes. Whatever the mode, a commit that changes the object applies all of
// it.
const (
	CorrectDrift DriftMode = "correct" // it is applied again
	ReportDrift  DriftMode = "report"  // it is held as it is
)

// Plan is what is to be done with all objects of an instance.
type Plan struct {
	// Steps holds the decision for every rendered object, in the order to apply
	// them; the objects of one step are independent of each other.
	Steps [][]Decision
	// Order is that of Steps.
	Order *Order
	// Prunes holds the decision for every object that is owned and not
	// rendered, in the order to delete them, and for every stray.
	Prunes [][]Decision
	// Guarded is how many objects were owned when the guard against a mass deletion
	// began to hold, and 0 when it does not. What has been applied since is no
	// reason to let go of what it holds.
	Guarded int
	// Next is the inventory to record before anything is done: all that was
	// owned, and all that is about to be touched.
	Next Set
}

// Decisions returns all decisions, sorted by ID.
func (p Plan) Decisions() []Decision {
	return p.Where(func(Decision) bool { return true })
}

// Where returns the decisions of which that is so, sorted by ID.
func (p Plan) Where(so func(Decision) bool) []Decision {
	var out []Decision
	for d := range p.All() {
		if so(d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Decision) int { return Compare(a.ID, b.ID) })
	return out
}

// All goes through all decisions, in the order in which they are carried out.
func (p Plan) All() iter.Seq[Decision] {
	return func(yield func(Decision) bool) {
		for _, steps := range [][][]Decision{p.Steps, p.Prunes} {
			for _, step := range steps {
				for _, d := range step {
					if !yield(d) {
						return
					}
				}
			}
		}
	}
}

// Touches reports whether carrying out the plan would change anything in the
// cluster or in the inventory.
func (p Plan) Touches() bool {
	for d := range p.All() {
		if d.Action.Acts() || d.Action == Release {
			return true
		}
	}
	return false
}

// Validate says what is wrong with a mode.
func (m DriftMode) Validate() error {
	switch m {
	case "", CorrectDrift, ReportDrift:
		return nil
	}
	return fmt.Errorf("%q: use %s or %s", string(m), CorrectDrift, ReportDrift)
}

// New plans a pass. What it promises, whatever the input:
//
//   - every object that is rendered, owned or a stray gets exactly one decision,
//     and the order of the input makes no difference;
//   - no stray is deleted, and nothing that is referenced, rendered, be it under another API group, or
//     owned by another inventory is pruned, and no namespace or definition that
//     would take such an object with it;
//   - with Faults, nothing is changed but what is Reverted and what has drifted
//     from content that was applied before, and with ReportDrift that is not either;
//   - unless AllowPrune is set, nothing is pruned if nothing is rendered, or
//     if more than half of the objects would go;
//   - an object is applied only if what it depends on is in place or is
//     applied in an earlier step.
//
// The error is a [*CycleError], or names an object that was given twice.
func New(in Input) (Plan, error) {
	rendered := make(map[ID]Change, len(in.Changes))
	for _, c := range in.Changes {
		if _, twice := rendered[c.ID]; twice {
			return Plan{}, fmt.Errorf("%s is rendered twice", Format(c.ID))
		}
		rendered[c.ID] = c
	}
	p := planner{Input: in, rendered: rendered, decided: make(map[ID]Decision, len(in.Changes))}
	applies, err := p.applies()
	if err != nil {
		return Plan{}, err
	}
	prunes := p.prunes()
	if strays := p.strays(); len(strays) > 0 {
		prunes = append(prunes, strays)
	}
	return Plan{Steps: applies, Order: p.Order, Prunes: prunes, Guarded: p.Guarded, Next: p.next()}, nil
}

// planner holds the state of one call of New.
type planner struct {
	Input
	rendered map[ID]Change
	decided  map[ID]Decision
	moved    map[ID]ID // orphans that are one object with a rendered one
}

// next is what is owned, and what is about to be. An object that is refused or
// held without being ours yet is not recorded: we have no claim to it.
func (p *planner) next() Set {
	touched := make([]ID, 0, len(p.rendered))
	for id := range p.rendered {
		if action := p.decided[id].Action; action.Sends() || action == Keep {
			touched = append(touched, id)
		}
	}
	return p.Owned.With(touched...)
}

// take records the decisions for the IDs of a step.
func (p *planner) take(ids []ID, decide func(ID) Decision) []Decision {
	step := make([]Decision, 0, len(ids))
	for _, id := range ids {
		d := decide(id)
		d.ID = id
		p.decided[id] = d
		step = append(step, d)
	}
	return step
}

func hold(reason Reason, format string, args ...any) Decision {
	return Decision{Action: Hold, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func refuse(reason Reason, message string) Decision {
	return Decision{Action: Refuse, Reason: reason, Message: message}
}

func (v Veto) decision() Decision {
	reason := v.Reason
	if reason == "" {
		reason = Held
	}
	return Decision{Action: Hold, Reason: reason, Until: v.Until, Message: v.Message}
}

// Earliest returns the first instant at which a hold of the plan ends by
// itself, or the zero time if none is known.
func (p Plan) Earliest() time.Time {
	var earliest time.Time
	for d := range p.All() {
		if !d.Until.IsZero() && (earliest.IsZero() || d.Until.Before(earliest)) {
			earliest = d.Until
		}
	}
	return earliest
}
