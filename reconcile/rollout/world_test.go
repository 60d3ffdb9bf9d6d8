// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// world is a cluster as its DaemonSet controller and kubelets make it: pods of
// nodes that are up vanish after their grace period, missing ones are created
// from the newest template, and what becomes of a pod is up to its revision.
type world struct {
	now   time.Time
	nodes map[string]*worldNode
	sets  []*worldSet
	pods  map[types.UID]*worldPod
	made  int
}

type worldNode struct {
	name       string
	down       bool
	since      time.Time
	hold       bool
	cordonedBy string // by us, for a visit
	taint      bool
	cordon     bool
	others     bool // are at work on it
	gpu        bool
	zone       int
	gone       map[string]time.Time // by DaemonSet: since when it has no pod
}

type worldSet struct {
	name      string
	revision  int
	changed   time.Time // the controller sees a new template a second later
	behaviour map[int]behaviour
}

// behaviour is what a revision does on a node.
type behaviour struct {
	kind  string        // good, crash, pull, never, ends
	delay time.Duration // until it is Ready, or fails
	nodes map[string]bool
}

type worldPod struct {
	uid      types.UID
	set      *worldSet
	node     string
	revision int
	created  time.Time
	started  time.Time // or started again, when the node came back
	unready  time.Time // since when it has not been Ready; zero before it was
	deadline time.Time // of its deletion; zero when it is not deleted
}

const (
	worldGrace    = 20 * time.Second
	worldCreation = 2 * time.Second
	worldSync     = time.Second
)

func newWorld(now time.Time, nodes, sets int) *world {
	w := &world{now: now, nodes: map[string]*worldNode{}, pods: map[types.UID]*worldPod{}}
	for i := range sets {
		w.sets = append(w.sets, &worldSet{name: fmt.Sprintf("ds%d", i), changed: now.Add(-time.Hour), behaviour: map[int]behaviour{0: {kind: "good"}}})
	}
	for i := range nodes {
		w.addNode(fmt.Sprintf("n%d", i), i%2 == 1)
	}
	w.now = now.Add(-time.Hour)
	w.step()
	w.now = w.now.Add(time.Minute)
	w.step()
	w.now = now
	return w
}

func (w *world) addNode(name string, gpu bool) {
	n := &worldNode{name: name, gpu: gpu, zone: len(w.nodes) % 3, gone: map[string]time.Time{}}
	for _, s := range w.sets {
		n.gone[s.name] = w.now
	}
	w.nodes[name] = n
}

func (w *world) deleteNode(name string) {
	delete(w.nodes, name)
	for uid, p := range w.pods {
		if p.node == name {
			delete(w.pods, uid)
		}
	}
}

func (w *world) setDown(n *worldNode, down bool) {
	if n.down == down {
		return
	}
	for _, p := range w.pods {
		if p.node == n.name {
			p.unready, p.started = w.now, w.now
		}
	}
	n.down, n.since = down, w.now
}

// change gives a DaemonSet a new template.
func (w *world) change(s *worldSet, b behaviour) {
	s.revision++
	s.changed = w.now
	s.behaviour[s.revision] = b
}

// seen is the revision that the controller has observed.
func (w *world) seen(s *worldSet) (revision int, observed bool) {
	if w.now.Before(s.changed.Add(worldSync)) {
		return s.revision - 1, false
	}
	return s.revision, true
}

// step lets everything happen that is due.
func (w *world) step() {
	for _, p := range w.sortedPods() {
		n := w.nodes[p.node]
		ended := w.behaviourOf(p).kind == "ends" && !w.now.Before(p.started.Add(time.Minute))
		if (!p.deadline.IsZero() && !n.down && !w.now.Before(p.deadline)) || (ended && !n.down) {
			delete(w.pods, p.uid)
			n.gone[p.set.name] = w.now
		}
	}
	for _, n := range w.sortedNodes() {
		for _, s := range w.sets {
			since, gone := n.gone[s.name]
			if !gone || n.down || n.taint || w.now.Before(since.Add(worldCreation)) {
				continue
			}
			w.made++
			revision, _ := w.seen(s)
			uid := types.UID(fmt.Sprintf("p%d", w.made))
			w.pods[uid] = &worldPod{uid: uid, set: s, node: n.name, revision: revision, created: w.now, started: w.now}
			delete(n.gone, s.name)
		}
	}
}

// next is the earliest instant at which step has something to do or a pod
// looks different; zero when none is.
func (w *world) next() time.Time {
	a := alarm{now: w.now}
	for _, p := range w.pods {
		a.at(p.deadline)
		a.at(p.started.Add(w.behaviourOf(p).delay))
		a.at(p.started.Add(time.Minute))
	}
	for _, n := range w.nodes {
		for _, since := range n.gone {
			a.at(since.Add(worldCreation))
		}
	}
	for _, s := range w.sets {
		a.at(s.changed.Add(worldSync))
	}
	return a.next
}

func (w *world) behaviourOf(p *worldPod) behaviour {
	b := p.set.behaviour[p.revision]
	if b.nodes != nil && !b.nodes[p.node] {
		return behaviour{kind: "good", delay: b.delay}
	}
	return b
}

func (w *world) evict(d Decision) bool {
	p := w.pods[d.Pod.UID]
	if p == nil || !p.deadline.IsZero() {
		return false
	}
	p.deadline = w.now.Add(worldGrace)
	return true
}

func (w *world) observe(ledger Ledger) Observed {
	o := Observed{Ledger: ledger, Commit: "c", Instance: "us", Supposed: true}
	for _, n := range w.sortedNodes() {
		node := health.Node{Name: n.name, Ready: !n.down, Since: n.since, Labels: map[string]string{"gpu": fmt.Sprint(n.gpu), "zone": fmt.Sprint("z", n.zone)}}
		node.CordonedBy, node.Unschedulable = n.cordonedBy, n.cordon || n.cordonedBy != ""
		if n.hold {
			node.Hold = "held"
		}
		if n.others {
			node.Maintenance = "others"
		}
		if n.taint {
			node.Taints = append(node.Taints, corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule})
		}
		if n.down {
			node.Taints = append(node.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		o.Nodes = append(o.Nodes, node)
	}
	for _, s := range w.sets {
		revision, observed := w.seen(s)
		o.DaemonSets = append(o.DaemonSets, health.DaemonSet{
			Name: nameOf(s.name), UID: types.UID(s.name), Revision: fmt.Sprint("r", revision), RevisionObserved: observed,
			OnDelete: true, Template: worldTemplate(revision),
		})
	}
	for _, p := range w.sortedPods() {
		o.Pods = append(o.Pods, new(w.podOf(p)))
	}
	return o
}

func (w *world) podOf(p *worldPod) health.Pod {
	pod := health.Pod{
		Name: types.NamespacedName{Namespace: "ns", Name: string(p.uid)}, UID: p.uid, Node: p.node, Owner: types.UID(p.set.name),
		Hash: fmt.Sprint("r", p.revision), Phase: corev1.PodRunning, Created: p.created, GracePeriod: worldGrace,
		Deleting: !p.deadline.IsZero(), DeletionDeadline: p.deadline, UnreadySince: p.unready,
	}
	needs := health.NeedsOf(worldTemplate(p.revision))
	pod.Needs = &needs
	b := w.behaviourOf(p)
	due := !w.now.Before(p.started.Add(b.delay))
	switch {
	case w.nodes[p.node].down:
	case b.kind == "good" && due:
		pod.Ready, pod.ReadySince, pod.UnreadySince = true, p.started.Add(b.delay), time.Time{}
	case b.kind == "crash" && due:
		pod.Problem = health.Problem{Reason: "CrashLoopBackOff"}
	case b.kind == "pull" && due:
		pod.Problem = health.Problem{Reason: "ImagePullBackOff"}
	}
	return pod
}

// worldTemplate is one that needs now more and now less than the one before.
func worldTemplate(revision int) *corev1.PodSpec {
	cpu := resource.NewMilliQuantity(int64(100*(revision%3+1)), resource.DecimalSI)
	return &corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *cpu}},
	}}}
}

// inService says that all DaemonSets have an available pod on the node.
func (w *world) inService(n *worldNode, daemonSets []types.NamespacedName, minReady time.Duration) bool {
	up := 0
	for _, p := range w.pods {
		if p.node != n.name || !slices.Contains(daemonSets, nameOf(p.set.name)) {
			continue
		}
		if pod := w.podOf(p); pod.Ready && !pod.Deleting && !w.now.Before(pod.ReadySince.Add(minReady)) {
			up++
		}
	}
	return up == len(daemonSets)
}

// done says that every pod is of the newest revision.
func (w *world) done() bool {
	for _, p := range w.pods {
		if p.revision != p.set.revision || !p.deadline.IsZero() {
			return false
		}
	}
	return len(w.pods) == len(w.nodes)*len(w.sets)
}

func (w *world) sortedNodes() []*worldNode {
	var list []*worldNode
	for _, n := range w.nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *worldNode) int { return cmp.Compare(a.name, b.name) })
	return list
}

func (w *world) sortedPods() []*worldPod {
	var list []*worldPod
	for _, p := range w.pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *worldPod) int { return cmp.Compare(a.uid, b.uid) })
	return list
}
