// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// Inspect compares rendered objects with the live ones, in the order given, and
// prepares them to be sent. It asks the API server only about objects of which
// one side has moved since they were last compared or applied, and of those
// only what has to be known to decide: whether a DaemonSet's pod template would
// change, whether a live object that somebody changed still is as it should be.
//
// What is to be created, or is sure to change, is rehearsed: a dry run says
// whether the API server would take it, unless Options say that each object
// stands for itself, or only the apply itself can tell.
//
// A change that is certain from its content carries neither Live nor Merged.
// Errors about one object are in its Change; the error is about all of them.
// The objects must not be changed afterwards: they are known by their address.
func (c *Cluster) Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	return c.inspect(ctx, objects, inspector{c.recall, c.inspectOne})
}

// InspectFully is Inspect without any memory: every object is dry-run, and
// every change carries Live, if there is one, and Merged, if the API server can
// tell, else Likely. It is for people who want to see the difference; Secrets are not masked.
func (c *Cluster) InspectFully(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	nothing := func(subject) (inventory.Change, bool) { return inventory.Change{}, false }
	return c.inspect(ctx, objects, inspector{nothing, c.inspectFully})
}

// subject is an object to inspect: what it should be and, unless it does not
// exist, what is known of the live one.
type subject struct {
	target
	// instead is where the API server keeps the kind at another version, if it does
	// not serve the object's.
	instead *meta.RESTMapping
	hash    string
	live    *live
	set     *rendered
	change  *inventory.Change // what came of it
}

// inspector compares one object with what is live.
type inspector struct {
	// recall answers what is known of an object that exists without asking the
	// API server.
	recall func(subject) (change inventory.Change, known bool)
	ask    func(context.Context, subject) (inventory.Change, error)
}

func (c *Cluster) inspect(ctx context.Context, objects []*unstructured.Unstructured, one inspector) ([]inventory.Change, error) {
	changes := make([]inventory.Change, len(objects))
	subjects := c.subjects(objects, changes)
	targets := make([]target, 0, len(subjects))
	for _, s := range subjects {
		targets = append(targets, s.whereItIs())
	}
	found, failed := c.find(ctx, targets)
	var unknown []*subject
	set := c.renderedOf(objects)
	for i := range subjects {
		s := &subjects[i]
		s.live, s.set, s.change = found[s.id], set, &changes[i]
		switch {
		case changes[i].Err != nil:
			continue
		case failed[s.id.GroupKind] != nil:
			changes[i] = inventory.Change{ID: s.id, Kind: inventory.Update, Object: s.object, Err: failed[s.id.GroupKind]}
			continue
		case s.live == nil:
			if changes[i] = absent(*s); changes[i].Err != nil || s.mapping == nil {
				continue
			}
		case s.mapping == nil: // it is there, and nobody can be asked about it at its new version yet
			changes[i] = c.differing(*s)
			changes[i].UID, changes[i].Unserved, changes[i].Err = s.live.uid, true, s.unserved()
			continue
		}
		change, known := one.recall(*s)
		if !known {
			unknown = append(unknown, s)
			continue
		}
		change.UID = s.live.uid
		changes[i] = change
	}
	if err := c.askAbout(ctx, unknown, one); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.found = found
	c.mu.Unlock()
	return changes, nil
}

// askAbout compares subjects of which nothing can be recalled.
func (c *Cluster) askAbout(ctx context.Context, unknown []*subject, one inspector) error {
	work, ctx := errgroup.WithContext(ctx)
	c.sideBySide(work, len(unknown), func(n int) (err error) {
		if err := c.throttle.enter(ctx); err != nil {
			return err
		}
		defer c.throttle.leave()
		s := unknown[n]
		*s.change, err = one.ask(ctx, *s)
		if s.live != nil {
			s.change.UID = s.live.uid
		}
		return err
	})
	return work.Wait()
}

// sideBySide calls do for each index below n, as many at once as may be in
// flight; whoever meets an error does no more. It takes few goroutines, because
// the stack of each has to grow before it can send its first request.
func (c *Cluster) sideBySide(work *errgroup.Group, n int, do func(i int) error) {
	var next atomic.Int64
	for range min(n, c.opts.InFlight) {
		work.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// prepared is a rendered object as it is sent.
type prepared struct {
	id     inventory.ID
	kind   schema.GroupVersionKind
	object *unstructured.Unstructured
	hash   string
}

// subjects prepares the objects and finds where they are kept. What is wrong
// with one of them is put into its change.
func (c *Cluster) subjects(objects []*unstructured.Unstructured, changes []inventory.Change) []subject {
	c.mu.Lock()
	before := c.prepared
	c.mu.Unlock()
	now := make(map[*unstructured.Unstructured]prepared, len(objects))
	subjects := make([]subject, 0, len(objects))
	mappings, instead := map[schema.GroupVersionKind]*meta.RESTMapping{}, map[schema.GroupVersionKind]*meta.RESTMapping{}
	for i, obj := range objects {
		p, ok := before[obj]
		if !ok {
			var err error
			if p, err = c.prepare(obj); err != nil {
				changes[i] = inventory.Change{ID: inventory.IDOf(obj), Kind: inventory.Update, Object: obj, Err: &inventory.RejectedError{Message: err.Error()}}
				subjects = append(subjects, subject{target: target{id: inventory.IDOf(obj), object: obj}})
				continue
			}
		}
		now[obj] = p
		t := target{id: p.id, object: p.object, mapping: mappings[p.kind]}
		var err error
		if t.mapping == nil {
			t, err = c.target(p.object)
			mappings[p.kind] = t.mapping
		}
		if err == nil && t.mapping == nil && instead[p.kind] == nil {
			instead[p.kind], err = c.locate(p.kind.GroupKind(), "")
		}
		if err != nil {
			changes[i] = inventory.Change{ID: t.id, Kind: inventory.Update, Object: p.object, Err: err}
		}
		subjects = append(subjects, subject{target: t, instead: instead[p.kind], hash: p.hash})
	}
	c.mu.Lock()
	c.prepared = now
	c.mu.Unlock()
	return subjects
}

func (c *Cluster) prepare(obj *unstructured.Unstructured) (prepared, error) {
	sent, err := inventory.Prepare(obj, c.opts.Instance)
	if err != nil {
		return prepared{}, err
	}
	hash, err := inventory.ContentHash(sent)
	return prepared{id: inventory.IDOf(sent), kind: sent.GroupVersionKind(), object: sent, hash: hash}, err
}

// whereItIs is the target at a version that the API server serves, if it serves any.
func (s subject) whereItIs() target {
	t := s.target
	if t.mapping == nil {
		t.mapping = s.instead
	}
	return t
}

// unserved is why an object cannot be applied at its version; nil if the commit
// brings the version.
func (s subject) unserved() error {
	gvk := s.object.GroupVersionKind()
	switch {
	case s.set.kinds[s.id.GroupKind]:
		return nil
	case s.instead != nil:
		return fmt.Errorf("the API server does not serve %s of version %s, but of %s: change apiVersion", gvk.GroupKind(), gvk.Version, s.instead.GroupVersionKind.Version)
	}
	return fmt.Errorf("the API server does not serve %s %s: its CustomResourceDefinition is missing", gvk.GroupVersion(), gvk.Kind)
}

// absent is the change for an object that does not exist.
func absent(s subject) inventory.Change {
	change := inventory.Change{ID: s.id, Kind: inventory.Create, Object: s.object}
	switch {
	case s.mapping == nil:
		change.Unserved, change.Err = true, s.unserved()
	case s.namespaced() && s.id.Namespace == "":
		change.Err = &inventory.RejectedError{Message: "metadata.namespace is missing: set it, or namespace: in the kustomization"}
	}
	return change
}

// differing is the change for an object that exists and may differ.
func (c *Cluster) differing(s subject) inventory.Change {
	return inventory.Change{
		ID: s.id, Kind: inventory.Update, Object: s.object, Drifted: c.drifted(s),
		Owner: s.live.owner(), Deleting: s.live.deleting,
	}
}

// recall answers for an object that exists if it is not ours to compare, or was
// compared before.
func (c *Cluster) recall(s subject) (inventory.Change, bool) {
	if s.live == nil {
		return inventory.Change{}, false
	}
	owner := s.live.owner()
	stripped := func() bool { return owner == "" && c.drifted(s) } // of our marks
	foreign := !c.opts.Adoption.Allows(owner, c.opts.Instance) && !stripped()
	if foreign || s.live.deleting {
		return c.differing(s), true
	}
	k, ok := c.knowledge(s.id)
	if ok && k.hash == s.hash && k.holds(s.live, s.id) && (k.change.Err == nil || !c.over(k.until)) {
		remembered := k.change
		remembered.Object = s.object
		return remembered, true
	}
	return inventory.Change{}, false
}

// inspectOne compares one object that nothing can be recalled of.
func (c *Cluster) inspectOne(ctx context.Context, s subject) (inventory.Change, error) {
	if s.live == nil {
		return c.rehearse(ctx, s, inventory.Change{ID: s.id, Kind: inventory.Create, Object: s.object, Drifted: c.drifted(s)})
	}
	change := c.differing(s)
	k, ok := c.knowledge(s.id)
	sameContent := ok && k.hash == s.hash
	// That new content is a change is certain without comparing, and so it is of
	// an object that is not ours yet, for our marks on it. Except for DaemonSets:
	// what becomes of a pod template decides when it may be sent. What an object is
	// without the fields of former managers has to be asked, unless it stands for
	// itself.
	adopted := change.Owner != c.opts.Instance.ID()
	certain := adopted && c.opts.Partial || !adopted && ok && !sameContent
	if certain && !change.Drifted && s.id.GroupKind != daemonSetKind {
		return c.rehearse(ctx, s, change)
	}
	return c.compare(ctx, s.target, change, s.hash)
}

// inspectFully compares one object without looking at what is known.
func (c *Cluster) inspectFully(ctx context.Context, s subject) (inventory.Change, error) {
	if s.live != nil {
		change, err := c.compare(ctx, s.target, c.differing(s), s.hash)
		if err == nil && change.Kind == inventory.Replace {
			change.Merged, err = c.successor(ctx, s.target)
		}
		if err == nil && change.Merged == nil && change.Live != nil {
			change.Likely, err = likely(change.Live, s.object)
		}
		return change, err
	}
	change := inventory.Change{ID: s.id, Kind: inventory.Create, Object: s.object}
	merged, err := c.dryRun(ctx, s.target, "")
	switch {
	case err == nil:
		change.Merged = merged
	case s.set.inconclusive(err):
	default:
		return failed(ctx, change, err)
	}
	return change, nil
}
