// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"regexp"
	"slices"
)

// guard returns the decision that holds back all prunes, nil if there is none.
func (p *planner) guard(orphans map[ID]Live) *Decision {
	if len(p.Faults) > 0 {
		d := p.refused()
		return &d
	}
	mass := p.massDelete(orphans) // in any case: it has to know how much there was before the commit
	if len(orphans) == 0 {
		return nil
	}
	if d := p.notApplied(); d != nil {
		return d
	}
	return mass
}

// notApplied holds all prunes while something that is rendered cannot be
// applied: it may be what takes the place of an orphan.
func (p *planner) notApplied() *Decision {
	for _, id := range sortedKeys(p.rendered) {
		if reason := p.decided[id].Reason; slices.Contains([]Reason{Conflict, Failing, Rejected, Unknown}, reason) {
			d := hold(ApplyFirst, "%s is not applied: %s", Format(id), reason)
			return &d
		}
	}
	return nil
}

// massDelete is the guard against a render that is not meant.
//
// An empty render, or one that drops more than half of what is owned, is more
// often a wrong path or a broken overlay than a wish. Not counted are objects
// that are gone or released anyway, and generated ConfigMaps and Secrets whose
// successor is rendered: in a small fleet those alone could be the majority. A
// single object is no mass; without that exception, an inventory of one could
// never change.
//
// Nor counts what is about to be made, or was while the guard has held: a new name
// for everything doubles what is owned.
func (p *planner) massDelete(orphans map[ID]Live) *Decision {
	if p.AllowPrune {
		return nil
	}
	if len(orphans) == 0 {
		p.Guarded = 0
		return nil
	}
	successors := map[ID]bool{}
	for id := range p.rendered {
		if base, generated := generatedBase(id); generated {
			successors[base] = true
		}
	}
	owned, dropped := p.existing(), 0
	for id, live := range orphans {
		base, generated := generatedBase(id)
		_, moved := p.moved[id]
		leaves := moved || live.Gone || live.Deleting || live.Err == nil && (live.Annotations[OwnerAnnotation] != p.Instance.ID() || StaysOnRemoval(live.Annotations))
		if leaves || generated && successors[base] {
			owned--
		} else {
			dropped++
		}
	}
	before := owned
	if p.Guarded > 0 {
		before = min(owned, p.Guarded)
	}
	mass := len(p.rendered) == 0 || dropped > 1 && dropped*2 > before
	if dropped == 0 || !mass {
		p.Guarded = 0
		return nil
	}
	p.Guarded = before
	if len(p.rendered) == 0 {
		d := hold(EmptyRender, "nothing is rendered: deleting everything needs --allow-prune")
		return &d
	}
	d := hold(MassDelete, "%d of %d objects would go: that needs --allow-prune", dropped, before)
	return &d
}

// existing is how many owned objects are not yet to be made.
func (p *planner) existing() int {
	n := p.Owned.Len()
	for id, c := range p.rendered {
		if c.Kind == Create && p.Owned.Contains(id) {
			n--
		}
	}
	return n
}

// generatedSuffix is the content hash that kustomize's generators append: its
// alphabet has neither vowels nor digits that look like them.
var generatedSuffix = regexp.MustCompile(`^(.+)-[bcdfghkmt2456789]{10}$`)

// generatedBase returns the ID that a generated ConfigMap or Secret would have
// without its content hash.
func generatedBase(id ID) (ID, bool) {
	if id.GroupKind.Group != "" || id.GroupKind.Kind != "ConfigMap" && id.GroupKind.Kind != "Secret" {
		return ID{}, false
	}
	parts := generatedSuffix.FindStringSubmatch(id.Name)
	if parts == nil {
		return ID{}, false
	}
	id.Name = parts[1]
	return id, true
}
