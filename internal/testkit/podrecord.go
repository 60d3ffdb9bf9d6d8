// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// PodEvent is one change of a pod, at the instant we heard of it.
type PodEvent struct {
	At   time.Time
	Type watch.EventType // Added, Modified or Deleted
	Pod  *corev1.Pod     // as it is after the change; for Deleted, as it was last
}

// Deletion is the instant from which a pod was on its way out: the first event
// that carries a deletion timestamp, or its disappearance.
type Deletion struct {
	At   time.Time
	Node string
	Pod  string
	UID  types.UID
}

// Outage is the instant at which most nodes of a DaemonSet lacked a Ready pod.
type Outage struct {
	At    time.Time
	Nodes []string // sorted
}

// PodRecord holds every event of some pods since RecordPods, none left out. Its
// methods may be called at any time, also while it goes on recording; each
// first waits until the record holds all that the API server knows.
type PodRecord struct {
	list func(context.Context) (*corev1.PodList, error)

	mu     sync.Mutex
	events []PodEvent
	err    error // the watch broke off
}

// RecordPods records the pods of a namespace that match the label selector
// until the test ends. Empty strings mean all. Pods that exist are recorded as
// Added now.
func (c *Cluster) RecordPods(t testing.TB, namespace, selector string) *PodRecord {
	t.Helper()
	pods := c.Client.CoreV1().Pods(namespace)
	r := &PodRecord{list: func(ctx context.Context) (*corev1.PodList, error) {
		return pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
	}}
	existing, err := r.list(t.Context())
	if err != nil {
		t.Fatalf("record pods: %v", err)
	}
	for _, p := range existing.Items {
		r.add(watch.Added, &p)
	}
	// A RetryWatcher resumes where it broke off; it gives an error, and not a gap,
	// when it cannot.
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), existing.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		t.Fatalf("record pods: %v", err)
	}
	go r.run(w.ResultChan())
	t.Cleanup(func() {
		w.Stop()
		<-w.Done()
	})
	return r
}

func (r *PodRecord) run(events <-chan watch.Event) {
	for e := range events {
		if p, ok := e.Object.(*corev1.Pod); ok {
			r.add(e.Type, p)
			continue
		}
		r.fail(e.Object)
	}
}

func (r *PodRecord) add(typ watch.EventType, p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, PodEvent{At: time.Now(), Type: typ, Pod: p})
}

func (r *PodRecord) fail(o runtime.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = fmt.Errorf("the watch broke off: %v", o)
}

// Events are all events so far, in order.
func (r *PodRecord) Events(t testing.TB) []PodEvent {
	t.Helper()
	Eventually(t, requestTimeout, r.caughtUp)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// caughtUp tells whether the record has all that a list shows now.
func (r *PodRecord) caughtUp(ctx context.Context) error {
	now, err := r.list(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	seen, alive := map[string]bool{}, map[types.UID]string{}
	for _, e := range r.events {
		seen[string(e.Pod.UID)+"@"+e.Pod.ResourceVersion] = true
		if e.Type == watch.Deleted {
			delete(alive, e.Pod.UID)
		} else {
			alive[e.Pod.UID] = e.Pod.Name
		}
	}
	for _, p := range now.Items {
		if !seen[string(p.UID)+"@"+p.ResourceVersion] {
			return fmt.Errorf("the record lacks the latest of pod %s", p.Name)
		}
		delete(alive, p.UID)
	}
	for _, name := range alive {
		return fmt.Errorf("the record lacks the end of pod %s", name)
	}
	return nil
}

// Deletions are those in [from, to), in the order they came.
func (r *PodRecord) Deletions(t testing.TB, from, to time.Time) []Deletion {
	t.Helper()
	var ds []Deletion
	going := map[types.UID]bool{}
	for _, e := range r.Events(t) {
		if going[e.Pod.UID] || e.Type != watch.Deleted && e.Pod.DeletionTimestamp == nil {
			continue
		}
		going[e.Pod.UID] = true
		if !e.At.Before(from) && e.At.Before(to) {
			ds = append(ds, Deletion{At: e.At, Node: e.Pod.Spec.NodeName, Pod: e.Pod.Name, UID: e.Pod.UID})
		}
	}
	return ds
}

// DeletionsByNode are all deletions so far, each node's in the order they came.
func (r *PodRecord) DeletionsByNode(t testing.TB) map[string][]Deletion {
	t.Helper()
	byNode := map[string][]Deletion{}
	for _, d := range r.Deletions(t, time.Time{}, time.Now().Add(time.Hour)) {
		byNode[d.Node] = append(byNode[d.Node], d)
	}
	return byNode
}

// WorstOutage finds the most nodes that were without a Ready pod of one of the
// DaemonSets at once. A node counts from its first Ready pod on; a pod on its way
// out is not Ready.
func (r *PodRecord) WorstOutage(t testing.TB, daemonSets ...string) Outage {
	t.Helper()
	var worst Outage
	readyByPlace := map[place]map[types.UID]bool{} // places that had a Ready pod, and their Ready pods now
	for _, e := range r.Events(t) {
		if owner := metav1.GetControllerOf(e.Pod); owner == nil || owner.Kind != "DaemonSet" || !slices.Contains(daemonSets, owner.Name) {
			continue
		}
		at := place{e.Pod.Spec.NodeName, metav1.GetControllerOf(e.Pod).Name}
		pods, known := readyByPlace[at]
		switch {
		case e.Type == watch.Deleted || !ready(e.Pod):
			delete(pods, e.Pod.UID)
		case known:
			pods[e.Pod.UID] = true
		default:
			readyByPlace[at] = map[types.UID]bool{e.Pod.UID: true}
		}
		if down := without(readyByPlace); len(down) > len(worst.Nodes) {
			worst = Outage{At: e.At, Nodes: down}
		}
	}
	return worst
}

// place is where a DaemonSet has one pod.
type place struct{ node, daemonSet string }

func without(readyByPlace map[place]map[types.UID]bool) []string {
	var down []string
	for at, pods := range readyByPlace {
		if len(pods) == 0 {
			down = append(down, at.node)
		}
	}
	slices.Sort(down)
	return slices.Compact(down)
}

func ready(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
