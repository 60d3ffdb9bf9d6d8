// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// feed watches one kind of object and keeps of each only what is asked for.
type feed[T any] struct {
	what     string // for errors: "watch pods"
	informer cache.SharedIndexInformer
	// refused is what the last list or watch was answered with, unless it began,
	// and denied is closed when trying again will not help.
	refused atomic.Pointer[error]
	denied  chan struct{}
	deny    sync.Once
	// absent says that the API server does not serve what is watched;
	// whenAbsent, if there is one, is called whenever it says so.
	absent     atomic.Bool
	whenAbsent func()
	// events counts what the watch has told.
	events atomic.Int64
}

// record is what a feed keeps of an object.
type record[T any] struct {
	meta  metav1.ObjectMeta // what the store needs: namespace, name, resourceVersion
	value T
}

// GetObjectMeta lets the store find the record's key.
func (r *record[T]) GetObjectMeta() metav1.Object { return &r.meta }

// source says where a feed's objects come from and what is kept of them.
type source[T any] struct {
	what    string
	lister  *cache.ListWatch
	example runtime.Object
	reduce  func(any) (T, error)
	// same reports whether a change from one value to the other is of no
	// interest to anybody who waits.
	same func(a, b T) bool
	// ignored reports that what becomes of an object is of no interest now. Nil
	// ignores none.
	ignored func(T) bool
}

func newFeed[T any](src source[T], notify func(), log *slog.Logger) (*feed[T], error) {
	f := &feed[T]{what: src.what, denied: make(chan struct{})}
	watching := &cache.ListWatch{
		ListWithContextFunc: src.lister.ListWithContextFunc,
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := src.lister.WatchFuncWithContext(ctx, o)
			if err == nil && f.refused.Swap(nil) != nil {
				notify() // whoever did not trust what it told last looks again
			}
			return w, err
		},
	}
	f.informer = cache.NewSharedIndexInformerWithOptions(watching, src.example, cache.SharedIndexInformerOptions{})
	if err := f.informer.SetTransform(src.transform); err != nil {
		return nil, fmt.Errorf("%s: %w", src.what, err)
	}
	err := f.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // it lists again
		}
		if f.refused.Swap(&err) == nil && f.informer.HasSynced() {
			log.Warn("a watch is refused: what it told may be out of date", "watch", f.what, "err", err)
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			f.deny.Do(func() { close(f.denied) })
		}
		if apierrors.IsNotFound(err) && f.whenAbsent != nil {
			f.absent.Store(true)
			f.whenAbsent()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.what, err)
	}
	tell := func(obj any) {
		f.events.Add(1)
		if !src.ignores(obj) {
			notify()
		}
	}
	_, err = f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		DeleteFunc: tell,
		UpdateFunc: func(before, after any) {
			f.events.Add(1)
			if src.ignores(before) && src.ignores(after) {
				return
			}
			a, b := before.(*record[T]), after.(*record[T])
			if a.meta.UID != b.meta.UID || !src.same(a.value, b.value) {
				notify()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.what, err)
	}
	return f, nil
}

// ignores reports that nobody need be told of a record. Of what is not one, somebody
// does.
func (s source[T]) ignores(obj any) bool {
	r, ok := obj.(*record[T])
	return ok && s.ignored != nil && s.ignored(r.value)
}

// transform reduces an object to a record. It may be given one that is reduced.
func (s source[T]) transform(obj any) (any, error) {
	switch obj := obj.(type) {
	case *record[T]:
		return obj, nil
	case cache.DeletedFinalStateUnknown:
		return obj, nil
	case metav1.ObjectMetaAccessor:
		m := obj.GetObjectMeta()
		value, err := s.reduce(obj)
		if err != nil {
			return nil, err
		}
		return &record[T]{
			meta: metav1.ObjectMeta{
				Namespace:       m.GetNamespace(),
				Name:            m.GetName(),
				UID:             m.GetUID(),
				ResourceVersion: m.GetResourceVersion(),
			},
			value: value,
		}, nil
	}
	return nil, fmt.Errorf("%s: unexpected %T", s.what, obj)
}

// start runs the watch until the cluster's end and returns a function that
// waits for the first complete list.
func (f *feed[T]) start(c *Cluster) func(context.Context) error {
	c.running.Go(func() { f.informer.Run(c.stop) })
	return f.wait
}

// wait returns when the feed has been read once. It gives up early if the API
// server will not let us.
func (f *feed[T]) wait(ctx context.Context) error {
	select {
	case <-f.informer.HasSyncedChecker().Done():
		return nil
	case <-f.denied:
	case <-ctx.Done():
	}
	if f.informer.HasSynced() {
		return nil // it was let in meanwhile
	}
	if err := f.blind(); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", f.what, context.Cause(ctx))
}

// blind says why the feed may be behind: its watch has ended, and a new one was
// refused. It is nil while there is one, or while one has not been tried.
func (f *feed[T]) blind() error {
	if refused := f.refused.Load(); refused != nil {
		return fmt.Errorf("%s: %w", f.what, *refused)
	}
	return nil
}

// values returns what the feed knows, in no order.
func (f *feed[T]) values() []T { return valuesOf[T](f.informer.GetStore()) }

func valuesOf[T any](store cache.Store) []T {
	records := store.List()
	out := make([]T, 0, len(records))
	for _, r := range records {
		out = append(out, r.(*record[T]).value)
	}
	return out
}

// pointersOf are the values in a store themselves, which spares a copy of what is
// many. A change puts a new record in the place of the old one.
func pointersOf[T any](store cache.Store) []*T {
	records := store.List()
	out := make([]*T, len(records))
	for i, r := range records {
		out[i] = &r.(*record[T]).value
	}
	return out
}

// get returns what the feed knows of one object.
func (f *feed[T]) get(namespace, name string) (T, bool) {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	r, found, err := f.informer.GetStore().GetByKey(key)
	if err != nil || !found {
		var none T
		return none, false
	}
	return r.(*record[T]).value, true
}
