// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// Inspect compares rendered objects with the live ones, in the order given, and
// prepares them to be sent. It asks the API server only about objects of which one side has moved since they
// were last compared or applied, and of those only what has to be known to
// decide: whether a DaemonSet's pod template would change, whether a live
// object that somebody changed still is as it should be.
//
// A change that is certain from its content carries neither Live nor Merged.
// Errors about one object are in its Change; the error is about all of them.
func (c *Cluster) Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	return c.inspect(ctx, objects, c.inspectOne)
}

// InspectFully is Inspect without any memory: every object is dry-run, and
// every change carries Live, if there is one, and Merged. It is for people who
// want to see the difference.
func (c *Cluster) InspectFully(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	return c.inspect(ctx, objects, c.inspectFully)
}

type inspector func(context.Context, target, *live) (inventory.Change, error)

func (c *Cluster) inspect(ctx context.Context, objects []*unstructured.Unstructured, one inspector) ([]inventory.Change, error) {
	changes := make([]inventory.Change, len(objects))
	targets, err := c.targets(objects, changes)
	if err != nil {
		return nil, err
	}
	mappings := map[schema.GroupKind]*meta.RESTMapping{}
	for _, t := range targets {
		if t.mapping != nil {
			mappings[t.id.GroupKind] = t.mapping
		}
	}
	if err := c.watchKinds(ctx, mappings); err != nil {
		return nil, err
	}
	found, err := c.find(ctx, targets)
	if err != nil {
		return nil, err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(c.opts.InFlight)
	defined := definitions(objects)
	for i, t := range targets {
		if changes[i].Err != nil {
			continue
		}
		if l, exists := found[t.id]; exists {
			work.Go(func() (err error) {
				changes[i], err = one(ctx, t, l)
				return err
			})
			continue
		}
		changes[i] = absent(t, defined)
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.found = found
	c.mu.Unlock()
	return changes, nil
}

// targets prepares the objects and finds where they are kept. What is wrong
// with one of them is put into its change.
func (c *Cluster) targets(objects []*unstructured.Unstructured, changes []inventory.Change) ([]target, error) {
	a := atlas{mapper: c.mapper}
	targets := make([]target, 0, len(objects))
	for i, obj := range objects {
		prepared, err := inventory.Prepare(obj, c.opts.Instance)
		if err != nil {
			changes[i] = inventory.Change{ID: inventory.IDOf(obj), Kind: inventory.Update, Object: obj, Err: &inventory.RejectedError{Message: err.Error()}}
			prepared = obj
		}
		t, err := a.target(prepared)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// definitions lists the kinds that the objects themselves define.
func definitions(objects []*unstructured.Unstructured) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, obj := range objects {
		if obj.GroupVersionKind().GroupKind() != definitionKind {
			continue
		}
		group, _, errGroup := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, errKind := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		if errGroup == nil && errKind == nil {
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return kinds
}

// absent is the change for an object that does not exist.
func absent(t target, defined map[schema.GroupKind]bool) inventory.Change {
	change := inventory.Change{ID: t.id, Kind: inventory.Create, Object: t.object}
	switch {
	case t.mapping == nil && !defined[t.id.GroupKind]:
		gvk := t.object.GroupVersionKind()
		change.Err = fmt.Errorf("the API server does not serve %s %s: its CustomResourceDefinition is missing", gvk.GroupVersion(), gvk.Kind)
	case t.mapping != nil && t.namespaced() && t.id.Namespace == "":
		change.Err = &inventory.RejectedError{Message: "metadata.namespace is missing"}
	}
	return change
}

// inspectOne compares one object that exists.
func (c *Cluster) inspectOne(ctx context.Context, t target, l *live) (inventory.Change, error) {
	change := inventory.Change{
		ID: t.id, Kind: inventory.Update, Object: t.object,
		Owner: l.owner(), Deleting: l.deleting,
	}
	foreign := change.Owner != "" && change.Owner != c.opts.Instance.ID()
	if foreign || change.Deleting {
		return change, nil
	}
	hash, err := inventory.ContentHash(t.object)
	if err != nil {
		return change, err
	}
	k, ok := c.knowledge(t.id)
	sameContent := ok && k.hash == hash
	if sameContent && k.holds(l, t.id) {
		remembered := k.change
		remembered.Object = t.object
		return remembered, nil
	}
	// New content is sent without asking, except for DaemonSets: what becomes
	// of a pod template decides when it may be sent. So is an object that is
	// not ours yet: our marks on it are a change for certain.
	certain := change.Owner == "" || ok && !sameContent
	if certain && t.id.GroupKind != daemonSetKind {
		return change, nil
	}
	change.Drifted = ok && k.drifted(hash)
	return c.compare(ctx, t, change, hash)
}

// inspectFully compares one object that exists, and remembers nothing.
func (c *Cluster) inspectFully(ctx context.Context, t target, l *live) (inventory.Change, error) {
	change := inventory.Change{
		ID: t.id, Kind: inventory.Update, Object: t.object,
		Owner: l.owner(), Deleting: l.deleting,
	}
	hash, err := inventory.ContentHash(t.object)
	if err != nil {
		return change, err
	}
	return c.compare(ctx, t, change, hash)
}
