// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lamplighter.dev/reconcile/health"
)

// Whoever is told looks at everything. What nobody decides by is told to nobody, and
// known all the same.
func TestWordOfIgnoredPodsIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(&rest.Config{Host: "http://localhost"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var running *watch.FakeWatcher
		c.feeds.pods, err = newFeed(source[health.Pod]{
			what: "watch pods", example: &corev1.Pod{}, reduce: newInterner().reducePod, same: samePod, ignored: c.strangers.pod,
			lister: &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						return nil, apierrors.NewBadRequest("list first")
					}
					running = watch.NewFake()
					return running, nil
				},
			},
		}, c.notify, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.feeds.pods.informer.RunWithContext(ctx) }()
		defer func() { cancel(); <-done }()

		for _, step := range []struct {
			name  string
			event func()
			told  bool
		}{
			{"a pod comes", func() { running.Add(madeBy("ours", "2")) }, true},
			{"some are ignored", func() { c.Ignore([]types.UID{"", "theirs"}) }, false},
			{"a pod of one that is ignored comes", func() { running.Add(madeBy("theirs", "3")) }, false},
			{"it changes", func() { running.Modify(madeBy("theirs", "4")) }, false},
			{"a pod of nobody comes", func() { running.Add(madeBy("", "5")) }, false},
			{"one of ours changes", func() { running.Modify(madeBy("ours", "6")) }, true},
			{"one is orphaned", func() { running.Modify(named(madeBy("", "7"), "pod-of-ours")) }, true},
			{"one of ours goes", func() { running.Delete(named(madeBy("", "8"), "pod-of-ours")) }, false},
			{"fewer are ignored: something may have been missed", func() { c.Ignore([]types.UID{""}) }, true},
			{"what was ignored goes", func() { running.Delete(madeBy("theirs", "9")) }, true},
			{"more are ignored", func() { c.Ignore([]types.UID{"", "theirs"}) }, false},
		} {
			synctest.Wait()
			step.event()
			synctest.Wait()
			told := false
			select {
			case <-c.Changed():
				told = true
			default:
			}
			if told != step.told {
				t.Errorf("%s: told %t, want %t", step.name, told, step.told)
			}
		}
		if _, _, pods := c.Snapshot(); len(pods) != 1 {
			t.Errorf("%d pods are known, want one, of nobody", len(pods))
		}
	})
}

// madeBy is a pod of a DaemonSet, "" for none, another in every version.
func madeBy(owner types.UID, version string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "agents", Name: "pod-of-" + string(owner), UID: "pod-of-" + owner, ResourceVersion: version,
			Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: version},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if owner != "" {
		controls := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", UID: owner, Controller: &controls}}
	}
	return p
}

func named(p *corev1.Pod, name string) *corev1.Pod {
	p.Name, p.UID = name, types.UID(name)
	return p
}
