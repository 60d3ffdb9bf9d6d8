// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	faultLabel       = "sandbox.lamplighter.dev/fault"
	stuckTerminating = "stuck-terminating"

	// terminationDelay is how long containers take to stop.
	terminationDelay = 100 * time.Millisecond
)

// kubelets end deleted pods, the half of a kubelet's work that kwok cannot do
// here: its stages see a pod, never the node that the pod is on.
type kubelets struct {
	client    kubernetes.Interface
	factory   informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	podsQueue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newKubelets(client kubernetes.Interface) *kubelets {
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(onlyWhatWeRead))
	return &kubelets{
		client:  client,
		factory: f,
		nodes:   f.Core().V1().Nodes().Lister(),
		pods:    f.Core().V1().Pods().Lister(),
		podsQueue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](terminationDelay, 5*time.Second)),
	}
}

// onlyWhatWeRead keeps the cache of thousands of pods small.
func onlyWhatWeRead(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.ManagedFields, o.Labels, o.Annotations = nil, nil, nil
		o.Spec, o.Status = corev1.PodSpec{NodeName: o.Spec.NodeName}, corev1.PodStatus{}
	case *corev1.Node:
		o.ManagedFields = nil
	}
	return o, nil
}

// start fills the caches and begins to watch.
func (k *kubelets) start(ctx context.Context) error {
	_, err := k.factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.enqueue(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.enqueue(o.(*corev1.Pod)) },
	})
	if err != nil {
		return err
	}
	_, err = k.factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			if stuck(was.(*corev1.Node)) && !stuck(is.(*corev1.Node)) {
				k.enqueueAll(is.(*corev1.Node).Name)
			}
		},
	})
	if err != nil {
		return err
	}
	k.factory.StartWithContext(ctx)
	for kind, synced := range k.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watch %v: %w", kind, context.Cause(ctx))
		}
	}
	return nil
}

// ready counts the nodes that are Ready.
func (k *kubelets) ready() (int, error) {
	nodes, err := k.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	ready := 0
	for _, n := range nodes {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready, nil
}

// run ends deleted pods until ctx is done.
func (k *kubelets) run(ctx context.Context) error {
	const workers = 8
	done := make(chan struct{})
	for range workers {
		go func() {
			for k.next(ctx) {
			}
			done <- struct{}{}
		}()
	}
	<-ctx.Done()
	k.podsQueue.ShutDown()
	for range workers {
		<-done
	}
	return nil
}

func (k *kubelets) enqueue(p *corev1.Pod) {
	if terminating(p) {
		k.podsQueue.AddAfter(cache.MetaObjectToName(p), terminationDelay)
	}
}

func (k *kubelets) enqueueAll(node string) {
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return // a lister on a cache cannot fail
	}
	for _, p := range pods {
		if p.Spec.NodeName == node {
			k.enqueue(p)
		}
	}
}

// terminating tells a pod whose containers still run. Once they have stopped,
// the grace period is zero and what is left (finalizers) is others' work.
func terminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds > 0
}

func stuck(n *corev1.Node) bool { return n.Labels[faultLabel] == stuckTerminating }

// next takes one pod from the queue; it is false when the queue has ended.
func (k *kubelets) next(ctx context.Context) bool {
	name, ended := k.podsQueue.Get()
	if ended {
		return false
	}
	defer k.podsQueue.Done(name)
	if err := k.terminate(ctx, name); err != nil {
		k.podsQueue.AddRateLimited(name)
		return true
	}
	k.podsQueue.Forget(name)
	return true
}

// terminate removes a deleted pod, unless its node is stuck: then removing
// the fault brings it back here.
func (k *kubelets) terminate(ctx context.Context, name cache.ObjectName) error {
	p, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || !terminating(p) {
		return ignoreNotFound(err)
	}
	n, err := k.nodes.Get(p.Spec.NodeName)
	if err != nil {
		return ignoreNotFound(err)
	}
	if stuck(n) {
		return nil
	}
	opts := metav1.NewDeleteOptions(0)
	opts.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	return ignoreNotFound(k.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *opts))
}
