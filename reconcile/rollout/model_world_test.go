// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// A fakeCluster has nodes, DaemonSets and pods as watches show them, with what
// only the kubelets and the DaemonSet controller know. It is built to be fast:
// lists and not maps, and nothing is written out that nobody reads.
type fakeCluster struct {
	now   time.Time
	nodes []*fakeNode
	sets  []*fakeSet
	pods  []*fakePod
	made  int
}

type fakeNode struct {
	health.Node
	zone, gpu int
	guests    guests
	person    bool        // has cordoned it
	gone      []time.Time // by set: since when it has no pod; zero when it has one
}

// A fakeSet is to get the template that Git has, or the one that it goes back to, and
// the controller sees a template a second after it was applied. A template is known by
// the revision that it makes.
type fakeSet struct {
	name      types.NamespacedName
	key       string
	uid       types.UID
	live      string // revision that the controller creates pods from
	applied   string // the newest revision that was applied
	changed   time.Time
	git       gitTemplate
	refuses   bool // the API server takes no template
	hold      string
	revisions []string          // that there have been, oldest first
	kept      []health.Revision // that the API server keeps; those before are in somebody's view
	behaviour map[string]podBehaviour
}

// podBehaviour is what becomes of the pods of a revision on its nodes.
type podBehaviour struct {
	kind  string        // good, crash, pull, never, ends, flaps
	delay time.Duration // until it is Ready, or fails
	node  string        // the only one that is not good; "" is all
	size  int
}

type fakePod struct {
	health.Pod
	set         int
	started     time.Time // or started again, when the node came back
	brokenUntil time.Time
	stuck       bool // a finalizer holds it
	version     int
}

const (
	podGrace     = 20 * time.Second
	podCreation  = 2 * time.Second
	podMinReady  = 10 * time.Second
	controllerIn = time.Second
)

func newFakeCluster(r *rand.Rand, now time.Time) *fakeCluster {
	w := &fakeCluster{now: now.Add(-time.Hour)}
	for i := range 1 + r.IntN(6) {
		s := &fakeSet{name: nameOf(fmt.Sprint("ds", i)), uid: types.UID(fmt.Sprint("ds", i)), changed: w.now.Add(-time.Hour), behaviour: map[string]podBehaviour{}}
		s.key = s.name.String()
		s.commit(podBehaviour{kind: "good", delay: time.Second})
		s.apply(s.git.revision, w.now.Add(-time.Hour))
		w.sets = append(w.sets, s)
	}
	for range 2 + r.IntN(6) {
		w.addNode(r)
	}
	w.tick()
	w.now = w.now.Add(time.Minute)
	w.tick()
	w.now = now
	w.tick()
	return w
}

func (w *fakeCluster) addNode(r *rand.Rand) *fakeNode {
	w.made++
	n := &fakeNode{Node: health.Node{Name: fmt.Sprintf("n%03d", w.made), Ready: true, Since: w.now}, gone: make([]time.Time, len(w.sets)), zone: r.IntN(3), gpu: r.IntN(2)}
	for i := range n.gone {
		n.gone[i] = w.now
	}
	n.guests.here = r.IntN(2) == 0
	n.fits(true)
	n.label()
	w.nodes = append(w.nodes, n)
	return n
}

// label makes new labels, since those before may be in somebody's view.
func (n *fakeNode) label() {
	n.Labels = map[string]string{"gpu": strconv.FormatBool(n.gpu == 1), "zone": "z" + strconv.Itoa(n.zone)}
}

func (n *fakeNode) taint(key string, on bool) {
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool { return t.Key == key })
	if on {
		n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func (n *fakeNode) tainted() bool {
	return slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == "dedicated" })
}

func (w *fakeCluster) deleteNode(i int) {
	name := w.nodes[i].Name
	w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
	w.pods = slices.DeleteFunc(w.pods, func(p *fakePod) bool { return p.Node == name })
}

func (w *fakeCluster) node(name string) *fakeNode {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (w *fakeCluster) setReady(n *fakeNode, ready bool) {
	if n.Ready == ready {
		return
	}
	n.Ready, n.Since = ready, w.now
	n.taint(corev1.TaintNodeNotReady, !ready)
	for _, p := range w.pods {
		if p.Node == n.Name {
			p.started = w.now
			p.Ready, p.ReadySince, p.UnreadySince = false, time.Time{}, w.now
			p.touch()
		}
	}
}

// commit gives Git a template that is new.
func (s *fakeSet) commit(b podBehaviour) {
	revision := "r" + strconv.Itoa(len(s.behaviour))
	b.size = len(s.behaviour) % 3
	s.behaviour[revision] = b
	s.revisions = append(s.revisions, revision)
	s.commitAgain(revision)
}

// apply brings a revision into force, and says whether one of that name was before.
func (s *fakeSet) apply(revision string, now time.Time) (before bool) {
	if s.live == "" {
		s.live = revision
	}
	if before = keeps(s.kept, revision); !before {
		s.kept = append(slices.Clone(s.kept), health.Revision{Hash: revision})
	}
	s.applied, s.changed = revision, now
	return before
}

var fakeTemplates, fakeNeeds = func() (t []*corev1.PodSpec, n []*health.Needs) {
	for size := range 3 {
		template := worldTemplate(size)
		needs := health.NeedsOf(template)
		t, n = append(t, template), append(n, &needs)
	}
	return t, n
}()

func (p *fakePod) touch() {
	p.version++
	p.ResourceVersion = strconv.Itoa(p.version)
}

// delete begins the end of a pod.
func (w *fakeCluster) delete(p *fakePod) {
	if p.Deleting {
		return
	}
	p.Deleting, p.DeletionDeadline = true, w.now.Add(podGrace)
	if p.stuck {
		p.Finalizers = []string{"example.com/wait"}
	}
	p.touch()
}

// tick lets everything happen that is due.
func (w *fakeCluster) tick() {
	for _, s := range w.sets {
		if !w.now.Before(s.changed.Add(controllerIn)) {
			s.live = s.applied
		}
	}
	up := make(map[string]*fakeNode, len(w.nodes))
	for _, n := range w.nodes {
		n.leave(w.now)
		if n.Ready {
			up[n.Name] = n
		}
	}
	kept := w.pods[:0]
	for _, p := range w.pods {
		n := up[p.Node]
		if n != nil && w.ends(p) {
			n.gone[p.set] = w.now
			continue
		}
		if n != nil {
			w.live(p)
		}
		kept = append(kept, p)
	}
	clear(w.pods[len(kept):])
	w.pods = kept
	for _, n := range w.nodes {
		if !n.Ready || n.tainted() {
			continue
		}
		for i, since := range n.gone {
			if !since.IsZero() && !w.now.Before(since.Add(podCreation)) {
				w.create(n, i)
			}
		}
	}
}

func (w *fakeCluster) ends(p *fakePod) bool {
	if p.Phase == corev1.PodFailed { // the controller deletes it at once
		return !w.now.Before(p.UnreadySince.Add(time.Second))
	}
	return p.Deleting && !p.stuck && !w.now.Before(p.DeletionDeadline)
}

func (w *fakeCluster) create(n *fakeNode, set int) {
	s := w.sets[set]
	w.made++
	uid := "p" + strconv.Itoa(w.made)
	p := &fakePod{set: set, started: w.now, Pod: health.Pod{
		Name: types.NamespacedName{Namespace: "ns", Name: uid}, UID: types.UID(uid), Node: n.Name, Owner: s.uid, Hash: s.live,
		Phase: corev1.PodRunning, Created: w.now, GracePeriod: podGrace, Needs: fakeNeeds[s.behaviour[s.live].size],
	}}
	p.touch()
	n.gone[set] = time.Time{}
	w.pods = append(w.pods, p)
	w.live(p)
}

// live finds what a pod looks like now. One that has Failed is over.
func (w *fakeCluster) live(p *fakePod) {
	if p.Phase == corev1.PodFailed {
		return
	}
	b := w.behaviourOf(p)
	age := w.now.Sub(p.started)
	ready, since, problem, phase := false, time.Time{}, "", p.Phase
	if age >= b.delay {
		switch b.kind {
		case "crash":
			problem = "CrashLoopBackOff"
		case "pull":
			problem = "ImagePullBackOff"
		case "ends":
			phase = corev1.PodFailed
		case "flaps": // five minutes Ready, two not
			const cycle, good = 7 * time.Minute, 5 * time.Minute
			n := (age - b.delay) / cycle
			if ready = (age-b.delay)%cycle < good; ready {
				since = p.started.Add(b.delay + n*cycle)
			}
		case "good":
			ready, since = true, p.started.Add(b.delay)
		}
	}
	switch {
	case p.brokenUntil.IsZero():
	case w.now.Before(p.brokenUntil):
		ready, problem = false, "CrashLoopBackOff"
	case ready && since.Before(p.brokenUntil):
		since = p.brokenUntil
	}
	if ready == p.Ready && problem == p.Problem.Reason && phase == p.Phase {
		return
	}
	p.Phase = phase
	if p.Problem.Reason != problem {
		p.Problem = health.Problem{Reason: problem}
	}
	switch {
	case ready:
		p.ReadySince, p.UnreadySince = since, time.Time{}
	case p.Ready || phase == corev1.PodFailed:
		p.ReadySince, p.UnreadySince = time.Time{}, w.now
	}
	p.Ready = ready
	p.touch()
}

func (w *fakeCluster) behaviourOf(p *fakePod) podBehaviour {
	b := w.sets[p.set].behaviour[p.Hash]
	if b.node != "" && b.node != p.Node {
		b.kind = "good"
	}
	return b
}

// next is the earliest instant at which something is due.
func (w *fakeCluster) next() time.Time {
	a := alarm{now: w.now}
	for _, p := range w.pods {
		b := w.behaviourOf(p)
		a.at(p.DeletionDeadline)
		a.at(p.started.Add(b.delay))
		a.at(p.brokenUntil)
		if p.Phase == corev1.PodFailed {
			a.at(p.UnreadySince.Add(time.Second))
		}
	}
	for _, n := range w.nodes {
		a.at(n.guests.going)
		for _, since := range n.gone {
			if !since.IsZero() {
				a.at(since.Add(podCreation))
			}
		}
	}
	for _, s := range w.sets {
		a.at(s.changed.Add(controllerIn))
	}
	return a.next
}

// observe is what a watch shows now. Lists are the caller's.
func (w *fakeCluster) observe() Observed {
	o := Observed{
		Nodes: make([]health.Node, len(w.nodes)), DaemonSets: make([]health.DaemonSet, len(w.sets)), Pods: make([]*health.Pod, len(w.pods)), Commit: "c", Instance: modelInstance,
	}
	for i, n := range w.nodes {
		o.Nodes[i] = n.Node
	}
	for i, s := range w.sets {
		o.DaemonSets[i] = health.DaemonSet{
			Name: s.name, UID: s.uid, Revision: s.live, RevisionObserved: s.live == s.applied && !w.now.Before(s.changed.Add(controllerIn)),
			Hold: s.hold, OnDelete: true, Template: fakeTemplates[s.behaviour[s.live].size], History: s.kept,
		}
	}
	for i, p := range w.pods {
		o.Pods[i] = new(p.Pod) // as it is now
	}
	return o
}

// available says that a DaemonSet has a pod on the node that serves.
func (w *fakeCluster) available(node string, set int, at time.Time) bool {
	for _, p := range w.pods {
		if p.set == set && p.Node == node && p.Ready && !p.Deleting && !at.Before(p.ReadySince.Add(podMinReady)) {
			return true
		}
	}
	return false
}

// settled says that there is one pod for each node, of the newest revision.
func (w *fakeCluster) settled() bool {
	for _, p := range w.pods {
		if p.Hash != w.sets[p.set].applied || p.Deleting {
			return false
		}
	}
	return len(w.pods) == len(w.nodes)*len(w.sets)
}
