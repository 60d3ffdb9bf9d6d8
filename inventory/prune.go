// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// prunes decides about every object that is owned and not rendered, dependents
// first.
func (p *planner) prunes() [][]Decision {
	orphans := map[ID]Live{}
	for _, id := range p.Owned.ids {
		if _, ok := p.rendered[id]; !ok {
			orphans[id] = Live{ID: id, Err: errNotLookedAt}
		}
	}
	for _, live := range p.Orphans {
		if _, ok := orphans[live.ID]; ok {
			orphans[live.ID] = live
		}
	}
	if len(orphans) == 0 {
		p.guard(orphans) // which has nothing to hold, and ends
		return nil
	}
	p.moved = p.movedTo(orphans)
	guard := p.guard(orphans)
	o := orderOf(stubs(orphans, true))
	layers, leftOver := o.layers()
	if len(leftOver) > 0 { // a circle of annotations: Git has let go of them, so they no longer matter
		o = orderOf(stubs(orphans, false))
		layers, _ = o.layers()
	}
	ordered := o.steps(layers)
	slices.Reverse(ordered)
	var out [][]Decision
	for _, ids := range ordered {
		out = append(out, p.take(ids, func(id ID) Decision {
			d := p.prune(orphans[id], guard, o)
			d.UID = orphans[id].UID
			d.After = o.dependents(id)
			return d
		}))
	}
	return out
}

// strays decides about what carries our marks and is ours by nothing else. Nobody
// can tell whether it was meant to go.
func (p *planner) strays() []Decision {
	uids := map[ID]types.UID{}
	for _, live := range p.Strays {
		uids[live.ID] = live.UID
	}
	return p.take(p.astray(), func(id ID) Decision {
		d := hold(Untracked, "it carries the marks of this instance, and neither Git nor the inventory has it")
		if why, kept := p.Kept[id]; kept {
			d = Decision{Action: Release, Reason: why.Reason, Message: why.Message}
		}
		d.UID = uids[id]
		return d
	})
}

// astray are the strays that are neither rendered nor owned, sorted.
func (p *planner) astray() []ID {
	var ids []ID
	for _, live := range p.Strays {
		if _, rendered := p.rendered[live.ID]; !rendered && !p.Owned.Contains(live.ID) {
			ids = append(ids, live.ID)
		}
	}
	return NewSet(ids...).ids
}

var errNotLookedAt = errors.New("it has not been looked at")

// prune decides about one orphan. Everything that depends on it has been
// decided before.
func (p *planner) prune(live Live, guard *Decision, o order) Decision {
	switch {
	case live.Gone:
		return Decision{Action: Release, Reason: Gone}
	case live.Err != nil:
		return hold(Unknown, "%s", firstLine(live.Err.Error()))
	case live.Annotations[OwnerAnnotation] != p.Instance.ID():
		return Decision{Action: Release, Reason: NotOwned, Message: ownerMessage(live)}
	}
	if to, moved := p.moved[live.ID]; moved {
		return p.letMove(to)
	}
	switch {
	case StaysOnRemoval(live.Annotations):
		if veto, held := p.Vetoes[live.ID]; held { // our marks on it would change
			return veto.decision()
		}
		if len(p.Faults) > 0 {
			return p.refused()
		}
		return Decision{Action: Release, Reason: Detached}
	case live.Deleting:
		return hold(Terminating, "%s", waitingFor(live.Finalizers))
	case guard != nil:
		return *guard
	}
	if why, kept := p.Kept[live.ID]; kept {
		if veto, held := p.Vetoes[live.ID]; held { // our marks on it would change
			return veto.decision()
		}
		return Decision{Action: Release, Reason: why.Reason, Message: why.Message}
	}
	if users := p.References[live.ID]; len(users) > 0 {
		slices.Sort(users)
		return hold(InUse, "used by %s", summarise(users))
	}
	if veto, held := p.Vetoes[live.ID]; held {
		return veto.decision()
	}
	if d, held := p.takesOthersAlong(live, o); held {
		return d
	}
	return Decision{Action: Prune, Reason: Orphaned}
}

// movedTo finds the orphans that are rendered after all, under another API
// group: one object that the API server serves in two. Deleting it by its old
// name would delete it.
func (p *planner) movedTo(orphans map[ID]Live) map[ID]ID {
	rendered := map[types.UID]ID{}
	for _, id := range sortedKeys(p.rendered) {
		if uid := p.rendered[id].UID; uid != "" {
			rendered[uid] = id
		}
	}
	moved := map[ID]ID{}
	for id, live := range orphans {
		if to, same := rendered[live.UID]; same && live.Err == nil && !live.Gone {
			moved[id] = to
		}
	}
	return moved
}

// letMove drops the old name as soon as the new one is in the inventory.
func (p *planner) letMove(to ID) Decision {
	if d := p.decided[to]; d.Action != Apply && d.Action != Keep && !p.Owned.Contains(to) {
		return hold(WaitsForDependency, "it is %s in Git, which is not applied: %s", Format(to), d.Reason)
	}
	return Decision{Action: Release, Reason: Moved, Message: "it is " + Format(to) + " in Git"}
}

// takesOthersAlong holds an orphan that something else needs: objects that are
// in a namespace or of a kind that would go with it, and orphans that depend on
// it and stay.
func (p *planner) takesOthersAlong(live Live, o order) (Decision, bool) {
	reason := WaitsForDependency
	switch live.ID.GroupKind {
	case namespaceKind:
		reason = NamespaceNotEmpty
	case definitionKind:
		reason = KindInUse
	}
	if len(live.Foreign) > 0 {
		return p.stays(reason, "holds %s, not in this inventory", summarise(live.Foreign)), true
	}
	for _, id := range p.astray() {
		if isMember(id, live) {
			return p.stays(reason, "holds %s, not in this inventory", Format(id)), true
		}
	}
	for _, id := range sortedKeys(p.rendered) {
		if isMember(id, live) {
			return hold(reason, "holds %s, which is in Git", Format(id)), true
		}
	}
	for _, id := range o.dependents(live.ID) {
		switch d, decided := p.decided[id]; {
		case !decided || d.Action == Prune || d.Reason == Gone:
		case d.Action == Release:
			return p.stays(reason, "%s stays: %s", Format(id), d.Reason), true
		default:
			return hold(reason, "%s stays: %s", Format(id), d.Reason), true
		}
	}
	return Decision{}, false
}

// stays is the decision about an orphan that is needed for as long as somebody
// else wants. Nobody waits for that when the instance ends.
func (p *planner) stays(reason Reason, format string, args ...any) Decision {
	d := hold(reason, format, args...)
	if p.Ends {
		d.Action = Release
	}
	return d
}

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// isMember reports whether an object would go if the orphan went.
func isMember(id ID, orphan Live) bool {
	switch orphan.ID.GroupKind {
	case namespaceKind:
		return id.Namespace == orphan.ID.Name
	case definitionKind:
		return id.GroupKind == orphan.Defines
	}
	return false
}

// stubs are as much of the orphans as the dependency graph looks at.
func stubs(orphans map[ID]Live, annotated bool) []*unstructured.Unstructured {
	var objs []*unstructured.Unstructured
	for _, id := range sortedKeys(orphans) {
		live := orphans[id]
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetGroupVersionKind(id.GroupKind.WithVersion("v1"))
		obj.SetNamespace(id.Namespace)
		obj.SetName(id.Name)
		if on, ok := live.Annotations[DependsOnAnnotation]; ok && annotated {
			obj.SetAnnotations(map[string]string{DependsOnAnnotation: on})
		}
		if !live.Defines.Empty() {
			obj.Object["spec"] = map[string]any{
				"group": live.Defines.Group,
				"names": map[string]any{"kind": live.Defines.Kind},
			}
		}
		objs = append(objs, obj)
	}
	return objs
}

func ownerMessage(live Live) string {
	if owner := live.Annotations[OwnerAnnotation]; owner != "" {
		return "owned by inventory " + owner
	}
	return "no longer marked as ours"
}

func waitingFor(finalizers []string) string {
	if len(finalizers) == 0 {
		return "it is being deleted"
	}
	slices.Sort(finalizers)
	return "waits for finalizer " + summarise(finalizers)
}
