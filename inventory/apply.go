// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"slices"
	"strconv"
)

// applies decides about every rendered object, dependencies first.
func (p *planner) applies() ([][]Decision, error) {
	if !p.Order.Is(p.Changes) {
		p.Order = OrderOf(p.Changes)
	}
	if p.Order.cycle != nil {
		return nil, p.Order.cycle
	}
	var out [][]Decision
	for _, ids := range p.Order.ids {
		out = append(out, p.take(ids, func(id ID) Decision { return p.apply(id, p.Order.order) }))
	}
	return out, nil
}

// apply decides about one rendered object. Everything it depends on has been
// decided before.
func (p *planner) apply(id ID, o order) Decision {
	c := p.rendered[id]
	d := p.compared(c)
	if _, back := p.Reverted[id]; d.Action.Sends() && !c.Drifted && !back && len(p.Faults) > 0 {
		d = p.refused()
	}
	if d.Action.Sends() {
		if fault := o.faults[id]; fault != "" {
			d = refuse(BadDependency, fault)
		} else if blocker, blocked := p.blocker(c, o); blocked {
			d = hold(WaitsForDependency, "%s comes first: %s", Format(blocker.ID), blocker.Reason)
		}
	}
	d.Object, d.Source = c.Object, c.Source
	d.Drifted, d.Manager, d.Fields = c.Drifted, c.DriftedBy, c.DriftedFields
	d.After = p.needs(c, o)
	return d
}

// compared decides about one rendered object as if nothing else existed.
func (p *planner) compared(c Change) Decision {
	if !c.mayApply(p.Instance, p.Adoption) {
		return notAdopted(c.Owner)
	}
	if c.Err != nil {
		return unapplicable(c.Err)
	}
	if err := Storable(c.ID); err != nil {
		return refuse(BadName, err.Error())
	}
	if why, reverted := p.Reverted[c.ID]; reverted && c.Kind == None {
		return hold(Reverted, "%s", why)
	}
	if c.Kind == None {
		return Decision{Action: Keep, Reason: Unchanged}
	}
	if c.Deleting {
		return hold(Terminating, "it is applied again when it is gone")
	}
	if c.Drifted && p.Drift == ReportDrift {
		return hold(Drifted, "%s", driftMessage(c))
	}
	if veto, held := p.Vetoes[c.ID]; held {
		return veto.decision()
	}
	switch {
	case c.Kind == Create && c.Drifted:
		return Decision{Action: Apply, Reason: Created, Message: driftMessage(c)}
	case c.Kind == Create:
		return Decision{Action: Apply, Reason: Created}
	case c.Kind == Replace:
		return Decision{Action: Recreate, Reason: Immutable, UID: c.UID, Message: Unchangeable(c.Immutable)}
	case c.Owner != p.Instance.ID() && !(c.Owner == "" && c.Drifted): // one that was stripped of our marks is ours
		return Decision{Action: Apply, Reason: Adopted, Message: formerOwner(c.Owner)}
	case p.Reverted[c.ID] != "":
		return Decision{Action: Apply, Reason: Reverted, Message: p.Reverted[c.ID]}
	case c.Drifted:
		return Decision{Action: Apply, Reason: Drifted, Message: driftMessage(c)}
	}
	return Decision{Action: Apply, Reason: Changed}
}

// refused is the decision about whatever a commit changes that does not come
// into force.
func (p *planner) refused() Decision {
	first := p.Faults[0]
	return hold(CommitRefused, "%s is not applied: %s", Format(first.ID), first.Reason)
}

func formerOwner(owner string) string {
	if owner == "" {
		return ""
	}
	return "from inventory " + owner
}

// Unchangeable says which fields keep an object from being changed in place.
func Unchangeable(fields []string) string {
	return summarise(fields) + " cannot be changed in place"
}

// driftMessage says by whom an object was changed, and where, as far as that is
// known.
func driftMessage(c Change) string {
	message := "changed"
	switch {
	case c.Kind == Create:
		return "deleted by somebody"
	case c.DriftedBy != "":
		message += " by " + strconv.Quote(c.DriftedBy)
	case len(c.DriftedFields) == 0:
		return ""
	}
	if len(c.DriftedFields) > 0 {
		message += ": " + summarise(c.DriftedFields)
	}
	return message
}

// unapplicable is the decision for an object that could not be compared.
func unapplicable(err error) Decision {
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		return refuse(Conflict, conflict.Error())
	}
	if rejected, ok := errors.AsType[*RejectedError](err); ok {
		return refuse(Rejected, rejected.Message)
	}
	return hold(Unknown, "%s", firstLine(err.Error()))
}

// needs lists the dependencies without which a change cannot be applied. An
// annotation asks for the dependency as it is rendered; a namespace or a
// definition only has to exist, and to stay.
func (p *planner) needs(c Change, o order) []ID {
	return slices.DeleteFunc(o.dependencies(c.ID), func(id ID) bool {
		d := p.rendered[id]
		brings := c.Unserved && id.GroupKind == definitionKind
		return d.Kind != Create && !d.Deleting && !brings && !slices.Contains(o.asked[c.ID], id)
	})
}

// blocker finds a dependency of a changed object that will not be in place.
func (p *planner) blocker(c Change, o order) (Decision, bool) {
	for _, id := range p.needs(c, o) {
		d := p.decided[id]
		there := d.Reason == Drifted && p.rendered[id].Kind != Create // as it was applied once, and left as it is
		if !d.Action.Sends() && d.Action != Keep && !there {
			return d, true
		}
	}
	return Decision{}, false
}
