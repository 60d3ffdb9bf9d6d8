// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"lamplighter.dev/reconcile/health"
)

// doubt is how long after an eviction was decided the pod may look untouched
// only because our view of the cluster lags. Until then the visit keeps its slot
// whatever the pods say; after it the eviction is tried anew. It is more than twice
// what a view may lag and two clocks may differ.
const doubt = time.Minute

// firstInsistence is how long after a first refusal the same pod is left alone:
// after each further one twice as long, up to lastInsistence. If the node is drained
// for it, others have lost their pods in vain, and the waits are longer.
const (
	firstInsistence = 30 * time.Second
	lastInsistence  = 5 * time.Minute

	firstDrainAgain = 5 * time.Minute
	lastDrainAgain  = 24 * time.Hour
)

// triedAgain is when the eviction may be tried again.
func (r Refusal) triedAgain() time.Time {
	wait, last := firstInsistence, lastInsistence
	if r.Drain || r.Drained {
		wait, last = firstDrainAgain, lastDrainAgain
	}
	for n := 0; n < r.Again && wait < last; n++ {
		wait *= 2
	}
	return r.At.Add(min(wait, last))
}

// book is the ledger while a plan is made.
type book struct {
	ledger Ledger
	lost   bool // nothing was remembered
	open   map[visitKey]*Visit

	policies map[string]bool // by name: those that there are

	failed  map[Failure]int // by key: the place in the ledger
	refused map[visitKey]*Refusal
	waves   map[waveKey]SettledWave
	jobs    []Job // to be created

	knownSince time.Time // since when visits are on record; zero when all are
}

type visitKey struct{ policy, node string }

func newBook(l Ledger) *book {
	b := &book{
		ledger:  l.clone(),
		lost:    l.lost(),
		open:    make(map[visitKey]*Visit, len(l.Visits)),
		failed:  make(map[Failure]int, len(l.Failures)),
		refused: make(map[visitKey]*Refusal, len(l.Refusals)),
		waves:   map[waveKey]SettledWave{},
	}
	for _, r := range l.Refusals {
		b.refused[visitKey{r.Policy, r.Node}] = &r
	}
	for i := range b.ledger.Visits {
		v := &b.ledger.Visits[i]
		b.open[visitKey{v.Policy, v.Node}] = v
	}
	for i, f := range b.ledger.Failures {
		b.failed[f.key()] = i
	}
	return b
}

func (f Failure) key() Failure {
	return Failure{Policy: f.Policy, Node: f.Node, DaemonSet: f.DaemonSet, Revision: f.Revision, Gate: f.Gate}
}

// openOf are the open visits of a policy, by the place of their node.
func (b *book) openOf(f *fleet, policy string) map[int]*Visit {
	open := map[int]*Visit{}
	for key, v := range b.open {
		if node, exists := f.byNode[key.node]; exists && key.policy == policy {
			open[node] = v
		}
	}
	return open
}

// begin opens a visit.
func (b *book) begin(v Visit) *Visit {
	b.open[visitKey{v.Policy, v.Node}] = &v
	return &v
}

// end closes a visit and keeps it among the finished ones.
func (b *book) end(v *Visit, outcome Outcome, now time.Time) {
	delete(b.open, visitKey{v.Policy, v.Node})
	v.Finished, v.Outcome = now, outcome
	for i := range v.Steps {
		s := &v.Steps[i]
		s.Pod, s.Term, s.Gone, s.Replaced, s.Resent, s.Problem = "", 0, time.Time{}, time.Time{}, false, "" // of no use to history
	}
	v.Drain.Decided, v.Drain.Term = time.Time{}, 0
	b.ledger.Finished = append(b.ledger.Finished, *v)
}

// withdraw forgets a visit of which nothing has happened.
func (b *book) withdraw(v *Visit) { delete(b.open, visitKey{v.Policy, v.Node}) }

// refuse records a refusal in the place of the node's last one.
func (b *book) refuse(r Refusal) {
	b.ledger.Refusals = append(slices.DeleteFunc(b.ledger.Refusals, r.sameNode), r)
	slices.SortFunc(b.ledger.Refusals, compareRefusals)
	b.refused[visitKey{r.Policy, r.Node}] = &r
}

// fail records a failure, once.
func (b *book) fail(f Failure) {
	if _, known := b.failed[f.key()]; known {
		return
	}
	b.failed[f.key()] = len(b.ledger.Failures)
	b.ledger.Failures = append(b.ledger.Failures, f)
}

// visits are the open ones, by policy and node.
func (b *book) visits() []Visit {
	if len(b.open) == 0 {
		return nil
	}
	visits := make([]Visit, 0, len(b.open))
	for _, v := range b.open {
		visits = append(visits, *v)
	}
	slices.SortFunc(visits, compareVisits)
	return visits
}

// owners are the visits whose policy may work on their node, by its place: the one
// that has cordoned it, or else one whose pods are out of service, or else the
// oldest. There is more than one only after a ledger was lost or a DaemonSet changed
// its policy. A policy that is gone owns nothing: nobody goes on with its visits.
//
// What is out of service goes on without a slot. So two policies never wait for each
// other's slots on nodes of which each has one.
func (f *fleet) owners(tours []*tour) []*Visit {
	owners := make([]*Visit, len(f.nodes))
	by := map[int32]*stop{}
	for _, t := range tours {
		for i := range t.stops {
			s := &t.stops[i]
			if s.visit != nil && (by[s.place] == nil || f.owns(s, by[s.place])) {
				by[s.place], owners[s.place] = s, s.visit
			}
		}
	}
	return owners
}

// owns says that a visit comes before another one to the same node.
func (f *fleet) owns(s, o *stop) bool {
	return cmp.Or(
		one(f.cordonedFor(o.visit))-one(f.cordonedFor(s.visit)),
		one(o.out())-one(s.out()),
		s.visit.Started.Compare(o.visit.Started)) < 0
}

// visitsOfOthers are the nodes that are visited by other policies than this one, with
// the first of those.
func (b *book) visitsOfOthers(policy string) map[string]string {
	others := map[string]string{}
	for key := range b.open {
		if first, taken := others[key.node]; key.policy != policy && b.policies[key.policy] && (!taken || key.policy < first) {
			others[key.node] = key.policy
		}
	}
	return others
}

// cordonedFor says that the node of a visit is cordoned for it.
func (f *fleet) cordonedFor(v *Visit) bool {
	i, exists := f.byNode[v.Node]
	return exists && f.markedFor(f.nodes[i], v.Policy)
}

// renew lets a step wait anew when the DaemonSet has another revision than it was
// for: what has become of the one before, that it brought no pod or took the node
// down, says nothing of this one. When the template changes between an eviction
// and its new pod, that pod is what came of the visit all the same.
func (s *Step) renew(d *daemonSet, pods []*health.Pod, f *fleet) {
	if s == nil || !s.Settled.IsZero() || !d.RevisionObserved || s.To == d.Revision {
		return
	}
	gone := true
	for _, p := range pods {
		if p.Deleting {
			continue
		}
		gone = false
		if d.UpToDate(p) && !f.mayBeOn(s, p) {
			s.To, s.Replaced = d.Revision, time.Time{}
		}
	}
	if gone {
		s.To, s.Evicted, s.Gone, s.Replaced = d.Revision, f.now, time.Time{}, time.Time{}
	}
}

// vacate remembers when the node was first seen without a pod: that is when the new
// one can start, however long the old one took to go. After one that hung it starts
// anew.
func (s *Step) vacate(v health.Verdict, now time.Time) {
	switch {
	case s == nil || !s.Settled.IsZero():
	case v.State == health.Stuck:
		s.Gone, s.Replaced = time.Time{}, time.Time{}
	case v.State == health.Replacing && v.Pod == nil && s.Gone.IsZero():
		s.Gone = now
	}
}

// follow writes into a step what has become of it.
func (t *tour) follow(s *Step, d *daemonSet, v health.Verdict, node string) {
	s.vacate(v, t.now)
	if s == nil || !s.Settled.IsZero() || !d.RevisionObserved || v.Pod == nil || !d.UpToDate(v.Pod) || v.Pod.Deleting {
		return
	}
	if t.mayBeOn(s, v.Pod) {
		t.alarm.at(t.certain(s))
		return
	}
	if s.Replaced.IsZero() {
		s.Replaced = v.Pod.Created
	}
	if v.State != health.Current {
		return
	}
	s.Settled = latest(t.limits.AvailableAt(d.DaemonSet, v.Pod), s.Evicted)
	_, s.Recovered = t.book.failed[Failure{Policy: t.policy.Name, Node: node, DaemonSet: d.key, Revision: s.To}]
	if !t.verifies {
		t.book.prove(d.key, s.To)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// prove remembers that a visit has settled on a revision.
func (b *book) prove(daemonSet, revision string) {
	g := b.ledger.Governed[daemonSet]
	if g.Proven == revision {
		return
	}
	g.Proven = revision
	if b.ledger.Governed == nil {
		b.ledger.Governed = map[string]Governance{}
	}
	b.ledger.Governed[daemonSet] = g
}

// conclude closes the visit of a stop when nothing of it is under way and
// either nothing is left to do or what is left waits for somebody, so that
// other nodes get its slot.
func (t *tour) conclude(s *look) {
	if s.visit == nil || s.underWay > 0 {
		return
	}
	switch {
	case s.halfWay && (s.visit.preparing() || !t.waitsForSomebody(&s.stop)):
		return // the next DaemonSet's turn
	case t.drainInDoubt(s.visit):
		s.hold = t.share(t.awaitDrain(s.visit))
		return
	case s.halfWay || s.gone > 0:
		t.book.end(s.visit, Released, t.now)
	case !t.verified(&s.stop):
		return
	default:
		t.book.end(s.visit, s.visit.outcome(), t.now)
	}
	s.visit = nil
}

// waitsForSomebody says that what comes next on a node is held by a person,
// refused by the API server, or left to others who are at work there. On a node
// that is down nothing but the visit says that it may be our doing.
func (t *tour) waitsForSomebody(s *stop) bool {
	return !s.down && (s.node.Hold != "" || t.maintenance(s.node) != "" || t.skipsCordoned(s.node) || s.set.Hold != "" || !s.set.OnDelete || t.refusal(s) != nil)
}

// refusal is what the API server said to the eviction that comes next.
func (t *tour) refusal(s *stop) *Refusal {
	r := t.book.refused[visitKey{t.policy.Name, s.node.Name}]
	if r == nil || r.DaemonSet != s.set.key || s.pod == nil || r.Pod != s.pod.UID {
		return nil
	}
	return r
}
