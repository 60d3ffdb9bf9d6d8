// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"lamplighter.dev/inventory"
)

// Sweep looks for objects that carry our marks among all kinds that the API server
// serves, be it that nothing of a kind is rendered or owned: [Cluster.Strays] knows
// of them from then on. What we may not list is left out, and so is, with a warning,
// what could not be listed. It takes a request for each kind, so one in the life of a
// process is enough.
func (c *Cluster) Sweep(ctx context.Context) {
	mappings, err := c.listable()
	if err != nil {
		c.opts.Log.Warn("not all kinds were looked through for objects of ours", "err", err)
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout) // nobody waits for one API for long
	defer cancel()
	var work errgroup.Group
	c.sideBySide(&work, len(mappings), func(i int) error {
		some, err := c.anyMarked(bounded, mappings[i])
		if err != nil && ctx.Err() == nil {
			c.opts.Log.Warn("not all kinds were looked through for objects of ours", "err", err)
		}
		if some {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.strewn[mappings[i].GroupVersionKind.GroupKind()] = mappings[i]
		}
		return nil
	})
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	c.mu.Lock()
	some := len(c.strewn) > 0
	c.mu.Unlock()
	if some {
		c.notify()
	}
}

// events tell of other objects and end by themselves.
const events = "Event"

// listable are the kinds of which objects can be listed, watched and deleted. The error
// says which groups could not be discovered.
func (c *Cluster) listable() ([]*meta.RESTMapping, error) {
	lists, undiscovered := c.discovery.ServerPreferredResources()
	var mappings []*meta.RESTMapping
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch", "delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			m := &meta.RESTMapping{Resource: gv.WithResource(r.Name), GroupVersionKind: gv.WithKind(r.Kind), Scope: meta.RESTScopeRoot}
			if r.Namespaced {
				m.Scope = meta.RESTScopeNamespace
			}
			if r.Kind != events {
				mappings = append(mappings, m)
			}
		}
	}
	return mappings, undiscovered
}

// anyMarked reports whether any object of a kind carries our marks, as far as we
// may know.
func (c *Cluster) anyMarked(ctx context.Context, mapping *meta.RESTMapping) (bool, error) {
	options := metav1.ListOptions{LabelSelector: c.ourLabel(), Limit: pageSize}
	for {
		var list *metav1.PartialObjectMetadataList
		err := c.try(ctx, func(ctx context.Context) (err error) {
			list, err = c.metadata.Resource(mapping.Resource).List(ctx, options)
			return err
		})
		switch {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
		}
		for i := range list.Items {
			if c.marks(&list.Items[i]) {
				return true, nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return false, nil
		}
	}
}

func (c *Cluster) ourLabel() string { return inventory.InstanceLabel + "=" + c.opts.Instance.Name }

// marks reports whether an object carries our marks and nobody has made it for
// another object.
func (c *Cluster) marks(m metav1.Object) bool {
	return m.GetLabels()[inventory.InstanceLabel] == c.opts.Instance.Name &&
		m.GetAnnotations()[inventory.OwnerAnnotation] == c.opts.Instance.ID() && len(m.GetOwnerReferences()) == 0
}

// Strays are objects that carry our marks and were neither inspected last nor among
// the orphans asked for last, sorted: of the kinds that are watched, and of those
// that [Cluster.Sweep] has found some of. It comes after Orphans, and asks the API
// server only about one that it has not seen before. One that cannot be read is told
// of all the same: nobody deletes it, and a pass has other things to do.
func (c *Cluster) Strays(ctx context.Context) ([]inventory.Live, error) {
	c.watchStrewn(ctx)
	candidates := c.untracked()
	c.mu.Lock()
	before := c.strays
	c.mu.Unlock()
	var (
		mu   sync.Mutex
		work errgroup.Group
		out  []inventory.Live
		seen = map[inventory.ID]types.UID{}
	)
	c.sideBySide(&work, len(candidates), func(i int) error {
		l := candidates[i]
		still, err := before[l.ID] == l.UID, error(nil)
		if !still {
			still, err = c.stillMarked(ctx, l)
		}
		mu.Lock()
		defer mu.Unlock()
		if still || err != nil {
			out = append(out, l)
		}
		if still {
			seen[l.ID] = l.UID
		}
		return ctx.Err()
	})
	if err := work.Wait(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.strays = seen
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b inventory.Live) int { return inventory.Compare(a.ID, b.ID) })
	return out, nil
}

// watchStrewn watches the kinds that have strays. A kind that cannot be watched has
// none that could be told of, which is said once.
func (c *Cluster) watchStrewn(ctx context.Context) {
	c.mu.Lock()
	var targets []target
	for kind, m := range c.strewn {
		targets = append(targets, target{id: inventory.ID{GroupKind: kind}, mapping: m})
	}
	c.mu.Unlock()
	for _, err := range c.watchKinds(ctx, targets) {
		if ctx.Err() == nil {
			c.opts.Log.Warn("a kind may have objects of ours that nobody is told of", "err", err)
		}
	}
}

// untracked are the marked objects that the watches know of and nobody else does.
// An object that is served under two API groups is tracked by either name. What a
// kind has no more strays of need not be watched for them.
func (c *Cluster) untracked() []inventory.Live {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []inventory.Live
	for kind, w := range c.kinds {
		some := false
		for _, l := range w.values() {
			id := inventory.ID{GroupKind: kind, Namespace: l.namespace, Name: l.name}
			switch {
			case c.tracks(id, l.uid):
			case l.owner() == c.opts.Instance.ID() && !l.dependent && !l.deleting:
				some = true
				out = append(out, inventory.Live{ID: id, UID: l.uid, Annotations: l.honoured, Finalizers: l.finalizers})
			}
		}
		if !some {
			delete(c.strewn, kind)
		}
	}
	return out
}

// stillMarked looks at an object: a watch may not know yet that it was deleted, or
// let go, a moment ago.
func (c *Cluster) stillMarked(ctx context.Context, l inventory.Live) (bool, error) {
	t, err := c.targetOf(l.ID)
	if err != nil || t.mapping == nil {
		return false, err
	}
	var m *metav1.PartialObjectMetadata
	err = c.try(ctx, func(ctx context.Context) (err error) {
		m, err = c.metadataOf(t).Get(ctx, l.ID.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", inventory.Format(l.ID), err)
	}
	return m.UID == l.UID && c.marks(m) && m.DeletionTimestamp == nil, nil
}
