// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// fleet is what was observed, sorted and indexed: nodes by name, DaemonSets by
// name, and for every pair of them the pods.
type fleet struct {
	now      time.Time
	sure     time.Time // by which doubts end: now, or zero when the clock is not to be trusted
	commit   string
	instance string
	term     Term
	doubt    string // why the clock is not to be trusted
	nodes    []*health.Node
	sets     []*daemonSet
	bySet    map[types.NamespacedName]int
	byNode   map[string]int

	pods     []*health.Pod
	first    []int32            // by node and set: 1 + the index of its first pod, 0 for none
	next     []int32            // by pod: the same for the next pod of the pair
	underWay map[types.UID]bool // see [Observed]
	queued   map[types.UID]bool // see [Observed]

	rendered map[types.NamespacedName]string // digests of templates in Git

	lengths map[string]lengths // by policy; of others they are measured

	locked map[string]locked // by node: what a DaemonSet says that it is about to do to it

	outdated  []int  // by set: its pods of another revision
	populated []bool // by set: a pod of it is there

	inquiry *inquiry
}

// daemonSet is one that exists, with what all its nodes share.
type daemonSet struct {
	*health.DaemonSet
	key         string
	placer      health.Placer
	needs       health.Needs
	unproven    counted
	admitted    bool      // a pod of the revision exists
	since       time.Time // when its revision came; zero while that is not known
	leakedAfter time.Time // see [Governance]
	question    Question  // about its admission; zero while it was not asked
}

// trusted says that the revision is of the newest template in Git.
func (d *daemonSet) trusted() bool { return d.RevisionObserved && !d.TemplatePending }

// newFleet indexes an observation. A DaemonSet that is being deleted is gone.
func newFleet(obs Observed, now time.Time) *fleet {
	f := &fleet{
		now:      now,
		commit:   obs.Commit,
		instance: obs.Instance,
		term:     obs.Ledger.Term,
		doubt:    obs.ClockProblem,
		nodes:    make([]*health.Node, len(obs.Nodes)),
		bySet:    make(map[types.NamespacedName]int, len(obs.DaemonSets)),
		byNode:   make(map[string]int, len(obs.Nodes)),
		pods:     obs.Pods,
		underWay: obs.UnderWay, queued: obs.Queued,
		rendered: obs.Rendered, lengths: obs.lengths,
	}
	if f.doubt == "" {
		f.sure = now
		if f.term.Since.IsZero() || f.term.Since.After(now) {
			f.term.Since = now
		}
	}
	for i := range obs.Nodes {
		f.nodes[i] = &obs.Nodes[i]
	}
	sortUnlessSorted(f.nodes, func(a, b *health.Node) int { return strings.Compare(a.Name, b.Name) })
	for i, n := range f.nodes {
		f.byNode[n.Name] = i
	}
	for i := range obs.DaemonSets {
		d := &obs.DaemonSets[i]
		f.lock(d)
		if !d.Deleting {
			f.sets = append(f.sets, &daemonSet{DaemonSet: d, key: d.Name.String(), placer: health.NewPlacer(*d), needs: health.NeedsOf(d.Template)})
		}
	}
	slices.SortFunc(f.sets, func(a, b *daemonSet) int { return strings.Compare(a.key, b.key) })
	for i, d := range f.sets {
		f.bySet[d.Name] = i
	}
	f.indexPods()
	return f
}

// locked is what a DaemonSet says that it is about to do to a node, and until when
// that counts; zero is without end.
type locked struct {
	message string
	until   time.Time
}

// lock takes in the locks of a DaemonSet that have not ended. Of several for one node
// the one counts that ends last.
func (f *fleet) lock(d *health.DaemonSet) {
	for _, l := range d.Locks {
		if !l.Until.IsZero() && !f.sure.Before(l.Until) {
			continue
		}
		if f.locked == nil {
			f.locked = map[string]locked{}
		}
		next := locked{health.LockMessage(d), l.Until}
		before, known := f.locked[l.Node]
		if !known || before.outlives(next) < 0 || (before.outlives(next) == 0 && next.message < before.message) {
			f.locked[l.Node] = next
		}
	}
}

// outlives compares when locks end: 1 says that this one ends later.
func (l locked) outlives(o locked) int {
	switch {
	case l.until.Equal(o.until):
		return 0
	case l.until.IsZero():
		return 1
	case o.until.IsZero():
		return -1
	}
	return l.until.Compare(o.until)
}

// indexPods threads the pods of each pair of node and DaemonSet together. Pods
// of no DaemonSet here, or on no node, belong to nobody.
func (f *fleet) indexPods() {
	byOwner := make(map[types.UID]int, len(f.sets))
	for i, d := range f.sets {
		byOwner[d.UID] = i
	}
	f.first = make([]int32, len(f.nodes)*len(f.sets))
	f.next = make([]int32, len(f.pods))
	f.outdated, f.populated = make([]int, len(f.sets)), make([]bool, len(f.sets))
	var owner types.UID // of the pod before, since pods come in runs of one
	var host string
	set, node, owned, hosted := 0, 0, false, false
	for i, p := range f.pods {
		if i%ahead == 0 {
			readAhead(f.pods[i:min(i+ahead, len(f.pods))])
		}
		if p.Owner != owner || i == 0 {
			owner = p.Owner
			set, owned = byOwner[owner]
		}
		if p.Node != host || i == 0 {
			host = p.Node
			node, hosted = f.byNode[host]
		}
		if !owned || !hosted {
			continue
		}
		pair := node*len(f.sets) + set
		f.next[i], f.first[pair] = f.first[pair], int32(i+1)
		d := f.sets[set]
		upToDate := d.UpToDate(p)
		f.outdated[set] += one(!upToDate)
		d.admitted = d.admitted || upToDate
		f.populated[set] = true
	}
}

// podsOf appends the pods of a pair to a buffer.
func (f *fleet) podsOf(node, set int, buffer []*health.Pod) []*health.Pod {
	for i := f.first[node*len(f.sets)+set]; i != 0; i = f.next[i-1] {
		buffer = append(buffer, f.pods[i-1])
	}
	return buffer
}

// ahead is how many pods, or nodes, are read before they are looked at.
const ahead = 64

// readAhead reads of some pods what a plan reads of every pod. They lie about in
// memory in no order, so that each is waited for for longer than it then takes to
// be judged; but when nothing depends on what is read, many are on their way at
// once. The sum says nothing: it is there so that the reads are, too.
//
//go:noinline
func readAhead(pods []*health.Pod) (sum int) {
	for _, p := range pods {
		sum += len(p.Node) + len(p.Hash) + len(p.Disruption) + p.Created.Nanosecond()
	}
	return sum
}

func sortUnlessSorted[T any](list []T, compare func(a, b T) int) {
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
}

// alarm finds the earliest instant after now.
type alarm struct{ now, next time.Time }

func (a *alarm) at(t time.Time) {
	if t.After(a.now) && (a.next.IsZero() || t.Before(a.next)) {
		a.next = t
	}
}
