// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// pageSize is how many objects are listed in one request.
const pageSize = 500

// find returns the metadata of those targets that exist. What carries our label
// the watches know. The rest may be new, or exist without our label: they are
// listed, one kind at a time, rather than asked for one by one.
func (c *Cluster) find(ctx context.Context, targets []target) (map[inventory.ID]*live, error) {
	found := map[inventory.ID]*live{}
	unseen := map[schema.GroupKind][]target{}
	for _, t := range targets {
		if t.mapping == nil || t.namespaced() && t.id.Namespace == "" {
			continue
		}
		if l, ok := c.watched(t); ok {
			found[t.id] = l
		} else {
			unseen[t.id.GroupKind] = append(unseen[t.id.GroupKind], t)
		}
	}
	lists := make(chan map[inventory.ID]*live, len(unseen))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(c.opts.InFlight)
	for _, kind := range unseen {
		work.Go(func() error {
			list, err := c.list(ctx, kind)
			lists <- list
			return err
		})
	}
	err := work.Wait()
	close(lists)
	for list := range lists {
		for id, l := range list {
			found[id] = l
		}
	}
	return found, err
}

// watched returns what the watch of its kind knows of an object.
func (c *Cluster) watched(t target) (*live, bool) {
	c.mu.Lock()
	f, ok := c.kinds[t.id.GroupKind]
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	return f.get(t.namespace(), t.id.Name)
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
