// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// evictor evicts each pod of a DaemonSet once, as soon as no more than a number of them
// would be out of service. It has no windows, tries nothing first and remembers nothing:
// what it takes is what evictions take.
type evictor struct {
	client kubernetes.Interface
	set    *appsv1.DaemonSet // the only one in its namespace
	limit  int

	pods    int
	ahead   []string        // are still to be evicted
	evicted map[string]bool // will not be in service again
	serving map[string]bool
	work    *errgroup.Group
}

func newEvictor(client kubernetes.Interface, set *appsv1.DaemonSet, limit int) *evictor {
	return &evictor{client: client, set: set, limit: limit, evicted: map[string]bool{}, serving: map[string]bool{}}
}

// run evicts the pods that there are when the DaemonSet's controller has seen its change.
func (e *evictor) run(ctx context.Context) error {
	if err := e.observed(ctx); err != nil {
		return err
	}
	api := e.client.CoreV1().Pods(e.set.Namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	e.work, ctx = errgroup.WithContext(ctx)
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	})
	if err != nil {
		return err
	}
	defer watching.Stop()
	e.pods = len(list.Items)
	for i := range list.Items {
		e.ahead = append(e.ahead, list.Items[i].Name)
		e.see(&list.Items[i])
	}
	for e.send(ctx); len(e.ahead) > 0; e.send(ctx) {
		event, more := <-watching.ResultChan()
		if !more { // as when an eviction has failed
			return cmp.Or(e.work.Wait(), errors.New("the watch of pods has ended"))
		}
		if pod, ok := event.Object.(*corev1.Pod); ok {
			e.see(pod)
		}
	}
	return e.work.Wait()
}

func (e *evictor) observed(ctx context.Context) error {
	const often = 10 * time.Millisecond
	return wait.PollUntilContextCancel(ctx, often, true, func(ctx context.Context) (bool, error) {
		d, err := e.client.AppsV1().DaemonSets(e.set.Namespace).Get(ctx, e.set.Name, metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration >= e.set.Generation, err
	})
}

func (e *evictor) see(p *corev1.Pod) {
	if p.DeletionTimestamp == nil && isReady(*p) && !e.evicted[p.Name] {
		e.serving[p.Name] = true
		return
	}
	delete(e.serving, p.Name)
}

// send evicts as many as may go.
func (e *evictor) send(ctx context.Context) {
	for e.pods-len(e.serving) < e.limit && len(e.ahead) > 0 {
		name := e.ahead[0]
		e.ahead, e.evicted[name] = e.ahead[1:], true
		delete(e.serving, name)
		e.work.Go(func() error {
			return e.client.PolicyV1().Evictions(e.set.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: e.set.Namespace, Name: name}})
		})
	}
}
