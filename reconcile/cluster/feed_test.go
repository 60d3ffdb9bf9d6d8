// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"lamplighter.dev/reconcile/health"
)

// A watch that ends and is not let in again leaves what it told last, which may
// be long out of date.
func TestFeedKnowsThatItIsBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forbidden atomic.Bool
		var notices atomic.Int64
		var log strings.Builder
		var running atomic.Pointer[watch.FakeWatcher]
		f, err := newFeed(source[health.Node]{
			what: "watch nodes", example: &corev1.Node{}, reduce: reduceNode, same: sameValue[health.Node],
			lister: &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						return nil, apierrors.NewBadRequest("list first")
					}
					if forbidden.Load() {
						return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
					}
					w := watch.NewFake()
					running.Store(w)
					return w, nil
				},
			},
		}, func() { notices.Add(1) }, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.informer.RunWithContext(ctx) }()
		defer func() { cancel(); <-done }()

		synctest.Wait()
		if err := f.blind(); err != nil {
			t.Errorf("while it watches: %v", err)
		}
		forbidden.Store(true)
		running.Load().Stop()
		<-time.After(time.Minute)
		if err := f.blind(); err == nil {
			t.Error("it takes itself for up to date while it may not watch")
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 1 {
			t.Errorf("%d warnings, want one:\n%s", got, &log)
		}
		before := notices.Load()
		forbidden.Store(false)
		<-time.After(5 * time.Minute)
		if err := f.blind(); err != nil {
			t.Errorf("after it was let in again: %v", err)
		}
		if notices.Load() == before {
			t.Error("nobody was told that it sees again")
		}
	})
}

// Whoever is told that something has moved looks at once, and may not look again:
// the feed knows by then what it tells of.
func TestFeedKnowsWhatItTellsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string // by whoever was told
		var running *watch.FakeWatcher
		var f *feed[health.Node]
		look := func() {
			node, found := f.get("", "a")
			seen = append(seen, fmt.Sprintf("%t %s", found, node.Labels["step"]))
		}
		f, err := newFeed(source[health.Node]{
			what: "watch nodes", example: &corev1.Node{}, reduce: reduceNode, same: sameValue[health.Node],
			lister: &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						return nil, apierrors.NewBadRequest("list first")
					}
					running = watch.NewFake()
					return running, nil
				},
			},
		}, look, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.informer.RunWithContext(ctx) }()
		defer func() { cancel(); <-done }()
		synctest.Wait()

		node := func(step string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: step, Labels: map[string]string{"step": step}}}
		}
		for _, event := range []func(){
			func() { running.Add(node("2")) }, func() { running.Modify(node("3")) }, func() { running.Delete(node("4")) },
		} {
			event()
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{"true 2", "true 3", "false "}, seen); diff != "" {
			t.Errorf("what was known when it was told (-want +got):\n%s", diff)
		}
	})
}
