// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// A Leak is a pod of a revision that is being rolled out which no visit has made:
// its node has the new version, perhaps outside every window. It stays on record
// until the DaemonSet has another revision.
type Leak struct {
	DaemonSet string    `json:"daemonSet"`
	Node      string    `json:"node"`
	Revision  string    `json:"revision"`
	Cause     LeakCause `json:"cause"`
	Message   string    `json:"message,omitempty"`
	Pod       types.UID `json:"pod,omitempty"` // "" while the old one is going
	Created   time.Time `json:"created,omitzero"`
}

// A LeakCause says why a pod was made anew, as far as that can be known. The set
// is closed and documented in docs/concepts/rollout.md.
type LeakCause string

const (
	// NewNode: the node has joined since.
	NewNode LeakCause = "NewNode"
	// NodeReturned: a node of that name was gone, and is back.
	NodeReturned LeakCause = "NodeReturned"
	// PodEvicted: somebody or something evicted the old pod, and has said so.
	PodEvicted LeakCause = "PodEvicted"
	// PodFailed: the old pod had ended.
	PodFailed LeakCause = "PodFailed"
	// PodDeleted: the old pod was deleted, and nobody has said why.
	PodDeleted LeakCause = "PodDeleted"
)

// LeakCauses lists every LeakCause, in the order in which the documentation has
// them.
func LeakCauses() []LeakCause {
	return []LeakCause{NewNode, NodeReturned, PodEvicted, PodFailed, PodDeleted}
}

// keptLeaks is how many leaks are remembered.
const keptLeaks = 200

// begins remembers when revisions came, since only a pod that is younger can
// have leaked. A pod of a revision that has come back is older than the one that
// was in force between.
func (b *book) begins(f *fleet) {
	for _, d := range f.sets {
		g, known := b.ledger.Governed[d.key]
		if !known || !d.RevisionObserved || g.Revision == d.Revision {
			continue
		}
		g.Before, g.Since, g.Revision = g.Since, f.now, d.Revision
		if g.Before.IsZero() {
			g.Before = f.now
		}
		b.ledger.Governed[d.key] = g
	}
	for _, d := range f.sets {
		if g := b.ledger.Governed[d.key]; d.RevisionObserved && g.Revision == d.Revision {
			d.leakedAfter, d.since = g.leakedAfter(), g.Since
		}
	}
	if len(b.ledger.Finished) > 0 { // of older pods it is not known any more whether a visit made them
		b.knownSince = b.ledger.Finished[0].Started
	}
	b.ledger.Leaks = slices.DeleteFunc(b.ledger.Leaks, func(l Leak) bool {
		i := slices.IndexFunc(f.sets, func(d *daemonSet) bool { return d.key == l.DaemonSet })
		_, exists := f.byNode[l.Node]
		return i < 0 || !exists || (f.sets[i].RevisionObserved && f.sets[i].Revision != l.Revision)
	})
}

// leakedAfter is when a pod of the revision in force was created at the earliest that
// has leaked, as exact as that is told of pods: to the second. Of the first revision
// that was seen, what was there by then has not.
func (g Governance) leakedAfter() time.Time {
	second := g.Before.Truncate(time.Second)
	if g.Before.Equal(g.Since) {
		return second.Add(time.Second)
	}
	return second
}

type nodeSet struct{ node, daemonSet string }

// made are the pairs of which a visit has made the pod, or is about to.
func (b *book) made(revisionOf func(string) string) map[nodeSet]bool {
	made := map[nodeSet]bool{}
	for _, visits := range [][]Visit{b.ledger.Finished, b.visits()} {
		for _, v := range visits {
			for _, s := range v.Steps {
				if s.To == revisionOf(s.DaemonSet) {
					made[nodeSet{v.Node, s.DaemonSet}] = true
				}
			}
		}
	}
	return made
}

// noteLeak remembers a pod that no visit has made, or one that goes without a
// visit, until it is known whether it matters.
func (t *tour) noteLeak(place int, step *Step, d *daemonSet, v health.Verdict, node *health.Node) {
	if step != nil || d.since.IsZero() {
		return
	}
	note := func(cause LeakCause, message string, pod types.UID, created time.Time) {
		t.leaks = append(t.leaks, candidateLeak{Leak{d.key, node.Name, d.Revision, cause, message, pod, created}, place})
	}
	if p := v.Pod; p != nil && p.Hash == d.Revision {
		switch {
		case p.Created.Before(d.leakedAfter), p.Created.Before(t.book.knownSince):
		case node.Created.After(d.since):
			note(NewNode, "", p.UID, p.Created)
		default:
			note(PodDeleted, "nobody has said why", p.UID, p.Created)
		}
		return
	}
	for _, p := range t.buffer {
		if d.UpToDate(p) {
			continue
		}
		if cause, message := causeOf(p); cause != "" {
			note(cause, message, "", time.Time{})
			return
		}
	}
}

// candidateLeak is a leak if its DaemonSet is still being rolled out.
type candidateLeak struct {
	Leak
	place int // of the DaemonSet in the policy
}

// causeOf says why an old pod goes; "" when it stays.
func causeOf(p *health.Pod) (LeakCause, string) {
	switch {
	case p.Disruption != "":
		return PodEvicted, p.Disruption
	case p.Ended():
		return PodFailed, p.Problem.String()
	case p.Deleting:
		return PodDeleted, "nobody has said why"
	}
	return "", ""
}

// recordLeaks puts the leaks of this pass on record, while there are nodes that
// have the old revision: once there are none, a pod that is made anew is what
// everybody has.
func (t *tour) recordLeaks() {
	if len(t.leaks) == 0 || t.forgot() {
		return
	}
	made := t.book.made(t.revision)
	for _, c := range t.leaks {
		if made[nodeSet{c.Node, c.DaemonSet}] || (c.Pod != "" && t.outdated[c.place] == 0) {
			continue
		}
		if c.Cause == NewNode && t.book.knew(c.Node) {
			c.Cause = NodeReturned
		}
		t.book.leak(c.Leak)
	}
}

// knew says that a node of the name was visited before.
func (b *book) knew(node string) bool {
	return slices.ContainsFunc(b.ledger.Finished, func(v Visit) bool { return v.Node == node })
}

// leak records a leak, once for each node. What was known of the old pod stands.
func (b *book) leak(l Leak) {
	i := slices.IndexFunc(b.ledger.Leaks, func(o Leak) bool { return o.DaemonSet == l.DaemonSet && o.Node == l.Node })
	switch {
	case i >= 0 && b.ledger.Leaks[i].Pod == "" && l.Pod != "" && l.Cause == PodDeleted:
		b.ledger.Leaks[i].Pod, b.ledger.Leaks[i].Created = l.Pod, l.Created
	case i >= 0 && b.ledger.Leaks[i].Pod == "":
		b.ledger.Leaks[i] = l
	case i >= 0 || len(b.ledger.Leaks) >= keptLeaks:
	default:
		b.ledger.Leaks = append(b.ledger.Leaks, l)
		slices.SortFunc(b.ledger.Leaks, func(x, y Leak) int {
			return cmp.Or(cmp.Compare(x.DaemonSet, y.DaemonSet), cmp.Compare(x.Node, y.Node))
		})
	}
}

// LeaksOf are those of a DaemonSet whose new pod has been seen, by node.
func (l Ledger) LeaksOf(daemonSet types.NamespacedName) []Leak {
	var out []Leak
	for _, leak := range l.Leaks {
		if leak.DaemonSet == daemonSet.String() && leak.Pod != "" {
			out = append(out, leak)
		}
	}
	return out
}
