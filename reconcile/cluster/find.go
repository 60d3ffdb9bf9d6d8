// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// pageSize is how many objects are listed in one request.
const pageSize = 500

// glimpse is what was last read of an object that no watch sees: it does not
// exist, or does not carry our label.
type glimpse struct {
	live   *live // nil if it does not exist
	events int64 // of its kind's watch, at the time
	until  time.Time
}

// glimpseHolds is how long a glimpse counts if no watch says otherwise.
const glimpseHolds = 10 * time.Second

// find returns the metadata of those targets that exist, and says which kinds
// could not be read. What carries our label the watches know. The rest may be
// new, or exist without our label: they are listed, one kind at a time, rather
// than asked for one by one.
func (c *Cluster) find(ctx context.Context, targets []target) (map[inventory.ID]*live, map[schema.GroupKind]error) {
	found := make(map[inventory.ID]*live, len(targets))
	unseen := map[schema.GroupKind][]target{}
	failed := c.watchKinds(ctx, targets)
	for _, t := range targets {
		if t.mapping == nil || failed[t.id.GroupKind] != nil || t.namespaced() && t.id.Namespace == "" {
			continue
		}
		if l, ok := c.watched(t); !ok {
			unseen[t.id.GroupKind] = append(unseen[t.id.GroupKind], t)
		} else if l != nil {
			found[t.id] = l
		}
	}
	var (
		mu   sync.Mutex
		work errgroup.Group
	)
	work.SetLimit(c.opts.InFlight)
	for kind, targets := range unseen {
		work.Go(func() error {
			events := c.eventsOf(kind)
			list, err := c.list(ctx, targets)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[kind] = err
				return nil
			}
			maps.Copy(found, list)
			c.glimpse(targets, list, events)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return found, failed
}

// glimpse remembers what a list has shown of the targets.
func (c *Cluster) glimpse(targets []target, list map[inventory.ID]*live, events int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.deadline(glimpseHolds)
	for _, t := range targets {
		c.glimpses[t.id] = glimpse{live: list[t.id], events: events, until: until}
	}
}

// eventsOf is how much the watch of a kind has told.
func (c *Cluster) eventsOf(kind schema.GroupKind) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.kinds[kind]; ok {
		return f.events.Load()
	}
	return 0
}

// watched returns what is known of an object without asking: from the watch of
// its kind, or from a glimpse that still counts. It is nil if the object does
// not exist.
func (c *Cluster) watched(t target) (l *live, known bool) {
	c.mu.Lock()
	f, watched := c.kinds[t.id.GroupKind]
	g, glimpsed := c.glimpses[t.id]
	c.mu.Unlock()
	if !watched {
		return nil, false
	}
	if l, ok := f.get(t.namespace(), t.id.Name); ok {
		return l, true
	}
	if glimpsed && g.events == f.events.Load() && !c.over(g.until) {
		return g.live, true
	}
	return nil, false
}

// list finds the targets, all of one kind, that exist: by name if it is one,
// else from a list of their namespace, or of all if they are in several.
func (c *Cluster) list(ctx context.Context, targets []target) (map[inventory.ID]*live, error) {
	if len(targets) == 1 {
		return c.look(ctx, targets[0])
	}
	byName := map[[2]string]inventory.ID{}
	var namespaces []string
	for _, t := range targets {
		byName[[2]string{t.namespace(), t.id.Name}] = t.id
		namespaces = append(namespaces, t.namespace())
	}
	slices.Sort(namespaces)
	namespace := metav1.NamespaceAll
	if namespaces = slices.Compact(namespaces); len(namespaces) == 1 {
		namespace = namespaces[0]
	}
	found := map[inventory.ID]*live{}
	err := c.eachPage(ctx, targets[0].mapping, namespace, func(item *metav1.PartialObjectMetadata) error {
		id, ok := byName[[2]string{item.Namespace, item.Name}]
		if !ok {
			return nil
		}
		l, err := liveOf(item)
		found[id] = l
		return err
	})
	return found, err
}

// look finds one object.
func (c *Cluster) look(ctx context.Context, t target) (map[inventory.ID]*live, error) {
	var m *metav1.PartialObjectMetadata
	err := c.try(ctx, func(ctx context.Context) (err error) {
		m, err = c.metadataOf(t).Get(ctx, t.id.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", inventory.Format(t.id), err)
	}
	l, err := liveOf(m)
	return map[inventory.ID]*live{t.id: l}, err
}

// eachPage lists the metadata of a kind's objects.
func (c *Cluster) eachPage(ctx context.Context, mapping *meta.RESTMapping, namespace string, each func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		var list *metav1.PartialObjectMetadataList
		err := c.try(ctx, func(ctx context.Context) (err error) {
			list, err = c.metadata.Resource(mapping.Resource).Namespace(namespace).List(ctx, options)
			return err
		})
		if apierrors.IsNotFound(err) {
			return nil // the kind is no longer served
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
		}
		for i := range list.Items {
			if err := each(&list.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}
