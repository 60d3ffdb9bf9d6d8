// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"lamplighter.dev/inventory"
)

// Orphans describes objects that are owned and not rendered, one entry for each
// ID, in the order given. For a namespace or a definition it also finds out
// what would go with it; if that cannot be read, the entry says so. It comes
// after Inspect: what neither has an object of is forgotten, and no longer watched.
func (c *Cluster) Orphans(ctx context.Context, ids []inventory.ID) ([]inventory.Live, error) {
	out := make([]inventory.Live, len(ids))
	targets := make([]target, 0, len(ids))
	for i, id := range ids {
		t, err := c.targetOf(id)
		if err != nil {
			out[i] = inventory.Live{ID: id, Err: err}
		}
		targets = append(targets, t)
	}
	found, failed := c.find(ctx, targets)
	c.keepOnly(targets, found)
	var work errgroup.Group
	work.SetLimit(c.opts.InFlight)
	for i, t := range targets {
		if out[i].Err != nil {
			continue
		}
		if err := failed[t.id.GroupKind]; err != nil {
			out[i] = inventory.Live{ID: t.id, Err: err}
			continue
		}
		work.Go(func() error {
			out[i] = c.orphan(ctx, t, found[t.id])
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return out, context.Cause(ctx)
}

// orphan describes one object; l is nil if it does not exist.
func (c *Cluster) orphan(ctx context.Context, t target, l *live) inventory.Live {
	if l == nil {
		return inventory.Live{ID: t.id, Gone: true}
	}
	out := inventory.Live{
		ID: t.id, UID: l.uid, Annotations: l.honoured,
		Deleting: l.deleting, Finalizers: l.finalizers,
	}
	switch t.id.GroupKind {
	case namespaceKind, definitionKind:
		f := c.cargo(ctx, t.id)
		out.Defines, out.Foreign, out.Err = f.defines, f.foreign, f.err
	}
	return out
}

// cargo is what goes with a namespace or a definition.
type cargo struct {
	defines schema.GroupKind // of a definition
	foreign []string
	err     error
	until   time.Time
}

// cargoHolds is how long a cargo that keeps an object is not looked at again. It
// takes many requests, and a pass may come every few milliseconds.
const cargoHolds = 30 * time.Second

// cargo finds out what goes with a namespace or a definition. Only a reason to
// keep it is remembered: that there is none has to be known of this moment.
func (c *Cluster) cargo(ctx context.Context, id inventory.ID) cargo {
	c.mu.Lock()
	f, ok := c.cargoes[id]
	c.mu.Unlock()
	if ok && !c.over(f.until) {
		return f
	}
	f = cargo{}
	if id.GroupKind == namespaceKind {
		f.foreign, f.err = c.foreignIn(ctx, id.Name)
	} else {
		f.defines, f.foreign, f.err = c.foreignOf(ctx, id.Name)
	}
	f.until = c.deadline(cargoHolds)
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.cargoes, id); f.err != nil || len(f.foreign) > 0 {
		c.cargoes[id] = f
	}
	return f
}

// enough is how many foreign objects are looked for: one holds, three are told.
const enough = 4

// foreignOf finds the kind that a definition defines, and objects of it that
// are not ours.
func (c *Cluster) foreignOf(ctx context.Context, definition string) (schema.GroupKind, []string, error) {
	plural, group, _ := strings.Cut(definition, ".")
	gvk, err := c.mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if meta.IsNoMatchError(err) {
		return schema.GroupKind{}, nil, nil // not served: it has no objects
	}
	if err != nil {
		return schema.GroupKind{}, nil, err
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return gvk.GroupKind(), nil, err
	}
	var foreign []string
	err = c.eachPage(ctx, mapping, metav1.NamespaceAll, func(m *metav1.PartialObjectMetadata) error {
		if len(foreign) < enough && !c.owns(gvk.GroupKind(), m) {
			foreign = append(foreign, describe(gvk.GroupKind(), m))
		}
		return nil
	})
	return gvk.GroupKind(), foreign, err
}

// foreignIn finds objects in a namespace that are not ours.
func (c *Cluster) foreignIn(ctx context.Context, namespace string) ([]string, error) {
	mappings, err := c.namespacedKinds()
	if err != nil {
		return nil, err
	}
	var foreign []string
	for _, mapping := range mappings {
		kind := mapping.GroupVersionKind.GroupKind()
		err := c.eachPage(ctx, mapping, namespace, func(m *metav1.PartialObjectMetadata) error {
			if len(foreign) < enough && !c.owns(kind, m) && !comesWithNamespace(kind, m) {
				foreign = append(foreign, describe(kind, m))
			}
			return nil
		})
		if err != nil || len(foreign) >= enough {
			return foreign, err
		}
	}
	return foreign, nil
}

// derived are kinds whose objects only tell of others.
var derived = map[schema.GroupKind]bool{
	{Kind: "Event"}:                         true,
	{Group: "events.k8s.io", Kind: "Event"}: true,
	{Kind: "Endpoints"}:                     true,
}

// namespacedKinds lists all kinds whose objects live in namespaces and can be
// listed and deleted, derived ones apart. A group that cannot be discovered is an error: what is in it would be
// overlooked.
func (c *Cluster) namespacedKinds() ([]*meta.RESTMapping, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.typed.Discovery())
	if err != nil {
		return nil, err
	}
	var mappings []*meta.RESTMapping
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if derived[gv.WithKind(r.Kind).GroupKind()] {
				continue
			}
			mappings = append(mappings, &meta.RESTMapping{
				Resource:         gv.WithResource(r.Name),
				GroupVersionKind: gv.WithKind(r.Kind),
				Scope:            meta.RESTScopeNamespace,
			})
		}
	}
	return mappings, nil
}

// owns reports whether an object is ours, or was made by a controller for
// another object, with which it will go. Our marks alone do not say so: an
// inventory that has lost it does not answer for it.
func (c *Cluster) owns(kind schema.GroupKind, m *metav1.PartialObjectMetadata) bool {
	if len(m.OwnerReferences) > 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.Annotations[inventory.OwnerAnnotation] == c.opts.Instance.ID() &&
		c.tracks(inventory.ID{GroupKind: kind, Namespace: m.Namespace, Name: m.Name}, m.UID)
}

// comesWithNamespace reports whether the control plane made an object by itself.
func comesWithNamespace(kind schema.GroupKind, m *metav1.PartialObjectMetadata) bool {
	switch kind.String() {
	case "ServiceAccount":
		return m.Name == "default"
	case "ConfigMap":
		return m.Name == "kube-root-ca.crt"
	}
	return false
}

func describe(kind schema.GroupKind, m *metav1.PartialObjectMetadata) string {
	return inventory.Format(inventory.ID{GroupKind: kind, Namespace: m.Namespace, Name: m.Name})
}
