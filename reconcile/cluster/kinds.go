// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"lamplighter.dev/inventory"
)

// kindWatch is the watch of one kind's objects that carry our label. There is
// one for each kind that is rendered or owned, and for no other.
type kindWatch struct {
	*feed[*live]
	resource schema.GroupVersionResource // that is watched
	ended    chan struct{}
	ending   sync.Once
}

// start runs the watch until it is ended, or the cluster is.
func (w *kindWatch) start(c *Cluster) {
	stop := make(chan struct{})
	c.running.Go(func() { w.informer.Run(stop) })
	c.running.Go(func() {
		defer close(stop)
		select {
		case <-w.ended:
		case <-c.stop:
		}
	})
}

func (w *kindWatch) end() { w.ending.Do(func() { close(w.ended) }) }

// unserved ends the watch of a kind that the API server does not serve, at least
// not at this version: it would ask for it for ever.
func (w *kindWatch) unserved(c *Cluster) {
	w.end()
	c.mapper.Reset()
	if w.informer.HasSynced() {
		c.notify() // its objects are gone
	}
}

// watchKinds makes sure that the objects of each kind that carry our label are
// watched, and waits until all have been read once. It says which kinds cannot
// be watched, and why; the others are none the worse for it.
func (c *Cluster) watchKinds(ctx context.Context, targets []target) map[schema.GroupKind]error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	watches := map[schema.GroupKind]*kindWatch{}
	failed := map[schema.GroupKind]error{}
	for _, t := range targets {
		kind := t.id.GroupKind
		if t.mapping == nil || watches[kind] != nil || failed[kind] != nil {
			continue
		}
		w, err := c.kind(kind, t.mapping.Resource)
		if err != nil {
			failed[kind] = err
			continue
		}
		watches[kind] = w
	}
	for kind, w := range watches {
		if err := w.wait(ctx); err != nil {
			failed[kind] = err
		}
	}
	return failed
}

// kind returns the watch of a kind, and starts it if there is none of the
// resource, or if the API server has ceased to serve what the last one watched.
func (c *Cluster) kind(kind schema.GroupKind, resource schema.GroupVersionResource) (*kindWatch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.kinds[kind]; ok {
		if w.resource == resource && !w.absent.Load() {
			return w, nil
		}
		w.end()
	}
	f, err := newFeed(source[*live]{
		what:    "watch " + resource.GroupResource().String(),
		lister:  c.labelled(resource),
		example: &metav1.PartialObjectMetadata{},
		reduce:  reduceLive,
		same:    sameLive(kind),
	}, c.notify, c.opts.Log)
	if err != nil {
		return nil, err
	}
	w := &kindWatch{feed: f, resource: resource, ended: make(chan struct{})}
	f.whenAbsent = func() { w.unserved(c) }
	w.start(c)
	c.kinds[kind] = w
	return w, nil
}

// keepOnly forgets all objects but the targets and what was inspected last, and ends
// the watches of the other kinds, unless one may have strays. Found are the targets that exist.
func (c *Cluster) keepOnly(targets []target, found map[inventory.ID]*live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	needed, kinds := make(map[inventory.ID]bool, len(c.prepared)+len(targets)), map[schema.GroupKind]bool{}
	for _, p := range c.prepared {
		needed[p.id] = true
	}
	for _, t := range targets {
		needed[t.id] = true
	}
	c.tracked, c.trackedUIDs = needed, map[types.UID]bool{}
	for _, known := range []map[inventory.ID]*live{found, c.found} {
		for id, l := range known {
			if l != nil && needed[id] {
				c.trackedUIDs[l.uid] = true
			}
		}
	}
	for id := range needed {
		kinds[id.GroupKind] = true
	}
	for kind := range c.strewn {
		kinds[kind] = true
	}
	for kind, w := range c.kinds {
		if !kinds[kind] {
			w.end()
			delete(c.kinds, kind)
		}
	}
	drop(c.known, needed)
	drop(c.glimpses, needed)
	drop(c.rehearsals, needed)
	drop(c.cargoes, needed)
}

// tracks reports whether an object was inspected last, or asked for as an orphan,
// be it under another API group that serves it too. The caller holds the lock.
func (c *Cluster) tracks(id inventory.ID, uid types.UID) bool {
	return c.tracked[id] || c.trackedUIDs[uid]
}

func drop[V any](remembered map[inventory.ID]V, needed map[inventory.ID]bool) {
	maps.DeleteFunc(remembered, func(id inventory.ID, _ V) bool { return !needed[id] })
}

// labelled lists and watches the metadata of objects that carry our label.
func (c *Cluster) labelled(resource schema.GroupVersionResource) *cache.ListWatch {
	selector := c.ourLabel()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return c.metadata.Resource(resource).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return c.metadata.Resource(resource).Watch(ctx, o)
		},
	}
}
