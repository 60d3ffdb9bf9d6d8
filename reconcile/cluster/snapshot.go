// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// feeds are the watches that every pass needs.
type feeds struct {
	nodes      *feed[health.Node]
	daemonSets *feed[*appsv1.DaemonSet]
	revisions  *feed[health.Revision]
	pods       *feed[health.Pod]
}

// podSelector finds the pods that DaemonSets have made, and those of
// StatefulSets, which nobody here asks for. The label that only the former have
// is deprecated.
const podSelector = appsv1.DefaultDaemonSetUniqueLabelKey

func (c *Cluster) newFeeds() (feeds, error) {
	var (
		f    feeds
		err  error
		core = c.typed.CoreV1().RESTClient()
		apps = c.typed.AppsV1().RESTClient()
		refs = newInterner()
	)
	if f.nodes, err = newFeed(source[health.Node]{
		what: "watch nodes", lister: lister(core, "nodes", ""), example: &corev1.Node{},
		reduce: reduceNode, same: sameValue[health.Node],
	}, c.notify, c.opts.Log); err != nil {
		return feeds{}, err
	}
	if f.daemonSets, err = newFeed(source[*appsv1.DaemonSet]{
		what: "watch DaemonSets", lister: lister(apps, "daemonsets", ""), example: &appsv1.DaemonSet{},
		reduce: reduceDaemonSet, same: sameDaemonSet,
	}, c.notify, c.opts.Log); err != nil {
		return feeds{}, err
	}
	if f.revisions, err = newFeed(source[health.Revision]{
		what: "watch ControllerRevisions", lister: lister(apps, "controllerrevisions", ""), example: &appsv1.ControllerRevision{},
		reduce: reduceRevision, same: func(a, b health.Revision) bool { return a.Number == b.Number },
	}, c.notify, c.opts.Log); err != nil {
		return feeds{}, err
	}
	f.pods, err = newFeed(source[health.Pod]{
		what: "watch pods", lister: lister(core, "pods", podSelector), example: &corev1.Pod{},
		reduce: refs.reducePod, same: samePod, ignored: c.strangers.pod,
	}, c.notify, c.opts.Log)
	return f, err
}

func lister(client rest.Interface, resource, selector string) *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = selector
		o.FieldSelector = fields.Everything().String()
	})
}

// start starts all feeds; what it returns waits for each.
func (f feeds) start(c *Cluster) []func(context.Context) error {
	return []func(context.Context) error{f.nodes.start(c), f.daemonSets.start(c), f.revisions.start(c), f.pods.start(c)}
}

// blind says which of the watches are refused, and why.
func (f feeds) blind() error {
	return errors.Join(f.nodes.blind(), f.daemonSets.blind(), f.revisions.blind(), f.pods.blind())
}

// Snapshot is what the watches have told last: all nodes and all DaemonSets,
// sorted by name, and all pods of DaemonSets, in no order and not to be changed. A DaemonSet of another
// generation than the one last compared or applied counts as not observed: our
// own template has not reached the watch yet, or somebody else's was not seen by
// Inspect. So do all while one of the watches is refused: what they tell may be
// long out of date.
func (c *Cluster) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) {
	nodes := c.feeds.nodes.values()
	slices.SortFunc(nodes, func(a, b health.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, c.daemonSets(), pointersOf[health.Pod](c.feeds.pods.informer.GetStore())
}

func (c *Cluster) daemonSets() []health.DaemonSet {
	revisions := map[types.UID][]health.Revision{} // by owner
	for _, r := range c.feeds.revisions.values() {
		revisions[r.Owner] = append(revisions[r.Owner], r)
	}
	blind := c.feeds.blind() != nil
	var out []health.DaemonSet
	for _, d := range c.feeds.daemonSets.values() {
		ds := health.DaemonSetOf(d, revisions[d.UID])
		if known := c.knownGeneration(ds); blind || known != 0 && known != d.Generation {
			ds.RevisionObserved = false
		}
		out = append(out, ds)
	}
	slices.SortFunc(out, func(a, b health.DaemonSet) int { return compareNames(a.Name, b.Name) })
	return out
}

// knownGeneration is the generation of a DaemonSet that was last compared with
// Git, or made by applying it; 0 if none was.
func (c *Cluster) knownGeneration(ds health.DaemonSet) int64 {
	id := inventory.ID{Namespace: ds.Name.Namespace, Name: ds.Name.Name, GroupKind: daemonSetKind}
	k, ok := c.knowledge(id)
	if !ok || k.uid != ds.UID {
		return 0
	}
	return k.generation
}

func compareNames(a, b types.NamespacedName) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return strings.Compare(a.Name, b.Name)
}

func reduceNode(obj any) (health.Node, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return health.Node{}, fmt.Errorf("unexpected %T", obj)
	}
	return health.NodeOf(node), nil
}

func reduceDaemonSet(obj any) (*appsv1.DaemonSet, error) {
	d, ok := obj.(*appsv1.DaemonSet)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	d = d.DeepCopy()
	d.ManagedFields = nil
	return d, nil
}

func reduceRevision(obj any) (health.Revision, error) {
	r, ok := obj.(*appsv1.ControllerRevision)
	if !ok {
		return health.Revision{}, fmt.Errorf("unexpected %T", obj)
	}
	return health.RevisionOf(r), nil
}

func sameValue[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

// sameDaemonSet ignores the counts in the status, which we never read.
func sameDaemonSet(a, b *appsv1.DaemonSet) bool {
	return a.Generation == b.Generation &&
		a.Status.ObservedGeneration == b.Status.ObservedGeneration &&
		a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		reflect.DeepEqual(a.Labels, b.Labels) &&
		reflect.DeepEqual(a.Annotations, b.Annotations)
}

// samePod ignores the resourceVersion: it is only needed to evict.
func samePod(a, b health.Pod) bool {
	a.ResourceVersion = b.ResourceVersion
	return reflect.DeepEqual(a, b)
}
