// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	faultLabel       = "sandbox.lamplighter.dev/fault"
	stuckTerminating = "stuck-terminating"
	notReady         = "not-ready"

	// terminationDelay is how long containers take to stop.
	terminationDelay = 100 * time.Millisecond

	// acceptDelay is how long kwok may take to accept a pod before it is shown to it
	// again.
	acceptDelay = 5 * time.Second

	shownAnnotation = "sandbox.lamplighter.dev/shown"
)

// kubelets do the part of a kubelet's work that kwok cannot do here, because
// its stages see a pod and never the node that the pod is on: they end deleted
// pods, or do not, and take nodes down, as the node's fault label says. And they
// show kwok the pods that were there before it took care of their node. The
// queue holds pods, and nodes as names without namespace.
type kubelets struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	nodes   corelisters.NodeLister
	pods    corelisters.PodLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newKubelets(client kubernetes.Interface) *kubelets {
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(onlyWhatWeRead))
	return &kubelets{
		client:  client,
		factory: f,
		nodes:   f.Core().V1().Nodes().Lister(),
		pods:    f.Core().V1().Pods().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](terminationDelay, 5*time.Second)),
	}
}

// onlyWhatWeRead keeps the cache of thousands of pods small.
func onlyWhatWeRead(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.ManagedFields, o.Labels, o.Annotations = nil, nil, nil
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName}
		o.Status = corev1.PodStatus{StartTime: o.Status.StartTime}
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
		AddFunc: func(o any) { k.queue.Add(cache.MetaObjectToName(o.(*corev1.Node))) },
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.Node), after.(*corev1.Node)
			if was.Labels[faultLabel] != is.Labels[faultLabel] || nodeReady(was) != nodeReady(is) {
				k.queue.Add(cache.MetaObjectToName(is))
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

// ready counts the nodes that are Ready and rid of the taint they are born with.
func (k *kubelets) ready() (int, error) {
	nodes, err := k.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	ready := 0
	for _, n := range nodes {
		if nodeReady(n) && len(n.Spec.Taints) == 0 {
			ready++
		}
	}
	return ready, nil
}

// run works until ctx is done.
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
	k.queue.ShutDown()
	for range workers {
		<-done
	}
	return nil
}

func (k *kubelets) enqueue(p *corev1.Pod) {
	switch {
	case terminating(p):
		k.queue.AddAfter(cache.MetaObjectToName(p), terminationDelay)
	case overlooked(p):
		k.queue.AddAfter(cache.MetaObjectToName(p), acceptDelay)
	}
}

// terminating tells a pod whose containers still run. Once they have stopped,
// the grace period is zero and what is left (finalizers) is others' work.
func terminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds > 0
}

// overlooked tells a pod that kwok has not accepted yet.
func overlooked(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Spec.NodeName != "" && p.Status.StartTime == nil
}

// endsPods is false while the node's kubelet is stuck or dead.
func endsPods(n *corev1.Node) bool {
	fault := n.Labels[faultLabel]
	return fault != stuckTerminating && fault != notReady
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// next takes one pod from the queue; it is false when the queue has ended.
func (k *kubelets) next(ctx context.Context) bool {
	name, ended := k.queue.Get()
	if ended {
		return false
	}
	defer k.queue.Done(name)
	if err := k.sync(ctx, name); err != nil {
		k.queue.AddRateLimited(name)
		return true
	}
	k.queue.Forget(name)
	return true
}

func (k *kubelets) sync(ctx context.Context, name cache.ObjectName) error {
	if name.Namespace == "" {
		return k.syncNode(ctx, name.Name)
	}
	return k.syncPod(ctx, name)
}

// syncNode takes a node down that should be; kwok takes it up again. Whatever
// else has changed, its pods may now start or end that could not before.
func (k *kubelets) syncNode(ctx context.Context, name string) error {
	n, err := k.nodes.Get(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	if n.Labels[faultLabel] == notReady && nodeReady(n) {
		return ignoreNotFound(k.takeDown(ctx, n))
	}
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, p := range pods {
		switch {
		case p.Spec.NodeName != name:
		case overlooked(p):
			k.queue.Add(cache.MetaObjectToName(p))
		default:
			k.enqueue(p)
		}
	}
	return nil
}

// syncPod ends a deleted pod and shows kwok an overlooked one, if the node lets
// it. When it does not, the node's recovery brings the pod back here.
func (k *kubelets) syncPod(ctx context.Context, name cache.ObjectName) error {
	p, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return ignoreNotFound(err)
	}
	n, err := k.nodes.Get(p.Spec.NodeName)
	switch {
	case err != nil:
		return ignoreNotFound(err)
	case terminating(p) && endsPods(n):
		opts := metav1.NewDeleteOptions(0)
		opts.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
		return ignoreNotFound(k.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *opts))
	case overlooked(p) && nodeReady(n):
		return ignoreNotFound(k.show(ctx, p))
	}
	return nil
}

// show changes a pod, so that kwok's watch tells of it, and of what it is now.
func (k *kubelets) show(ctx context.Context, p *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, p.UID, shownAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	_, err := k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (k *kubelets) takeDown(ctx context.Context, n *corev1.Node) error {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady",`+
		`"message":"container runtime is down","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, now, now)
	_, err := k.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}
