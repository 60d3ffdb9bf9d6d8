// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// A WaveState says how far a wave is.
type WaveState string

const (
	// WaveActive: nodes of it are visited, or are to be.
	WaveActive WaveState = "active"
	// WaveSoaking: it is settled and still watched.
	WaveSoaking WaveState = "soaking"
	// WaveBlocked: none of its nodes has settled, and all wait for somebody; or
	// it has no node.
	WaveBlocked WaveState = "blocked"
	// WaveDone: it is settled and has soaked.
	WaveDone WaveState = "done"
	// WavePending: an earlier wave is not done.
	WavePending WaveState = "waiting"
)

// WaveStatus is one wave of a policy.
type WaveStatus struct {
	Name    string
	State   WaveState
	Nodes   int // on which one of the policy's DaemonSets should run, or may go on
	Settled int
	Blocked int // nodes that wait for somebody, and are not waited for

	MaxUnavailable int       // as a number of nodes
	OutOfService   int       // nodes that visits hold
	SoakUntil      time.Time // of a wave that soaks
	Message        string    // what the next wave waits for; "" when done
}

// wave is one on a tour.
//
// A wave is settled when none of its nodes is visited or to be, and one at least
// has settled. Nodes that wait for somebody are not waited for: people hold them,
// or they were not Ready before we came. That no window is long enough for a node is
// nothing about the node, so it is. What the new pods may be to blame for is:
// a node that runs one which is not settled, or that stopped being Ready. That
// ends when the wave is done, and it stays done for these revisions: nodes that
// come back, or join it, are visited before those of later waves, and it does not
// soak again.
type wave struct {
	policy.Wave
	nodes     int
	settled   int
	settledAt time.Time // when the last pod of the revision had, also on nodes that wait half-way

	toVisit   int    // nodes that are visited or to be
	stuck     int    // of those, the ones on which nothing goes on for now
	obstacle  string // what is in the way on the first of them, and how to go on without it
	unsettled int    // nodes whose new pods are not settled, though we do not visit them
	failed    int    // of those, the ones whose failure nobody has acknowledged
	blocked   int    // nodes that wait for somebody
	blocker   string // the first of them on which something is to be done, and what ends that
	witness   string // the first of the unsettled
	visits    stuckVisits

	since  time.Time // when it settled, on record; zero when it has not
	soaked bool      // it is on record that it is done

	state   WaveState
	until   time.Time
	message string
}

// newWaves are those of a policy, or one of all its nodes.
func newWaves(p policy.UpgradePolicy) []wave {
	if len(p.Waves) == 0 {
		return []wave{{Wave: policy.Wave{MaxUnavailable: p.MaxUnavailable}}}
	}
	waves := make([]wave, len(p.Waves))
	for i, w := range p.Waves {
		waves[i].Wave = w
	}
	return waves
}

// place finds wave and domain of a node.
func (t *tour) place(s *stop) {
	s.wave = max(0, t.policy.WaveOf(labels.Set(s.node.Labels)))
	if key := t.policy.Topology.Key; key != "" {
		s.domain = s.node.Labels[key]
	}
}

// take counts a node on which nothing is to be done, and of every node when the
// last of its pods settled. The others are counted when it is known what holds
// them.
func (w *wave) take(s *look, settledAt time.Time) {
	w.nodes += one(s.wanted)
	if s.wanted {
		w.settledAt = latest(w.settledAt, settledAt)
	}
	switch {
	case s.set != nil, s.visit != nil, !s.wanted:
	case s.shown.leftOver():
		w.blocked++
	default:
		w.settled++
	}
}

// holdWaves finds how far the waves are, and holds what is not to be visited in
// the later ones: all but nodes that are down by our doing.
func (t *tour) holdWaves() {
	if len(t.policy.Waves) == 0 {
		return
	}
	t.elsewhere = t.book.visitsOfOthers(t.policy.Name)
	for i := range t.stops {
		t.weighWave(&t.stops[i])
	}
	t.progress()
	for t.gate = 0; t.gate < len(t.waves) && t.waves[t.gate].state == WaveDone; {
		t.gate++
	}
	for i := t.gate + 1; i < len(t.waves); i++ {
		t.waves[i].state, t.waves[i].until, t.waves[i].message = WavePending, time.Time{}, ""
	}
	if t.gate == len(t.waves) {
		return
	}
	held := t.share(t.waves[t.gate].hold())
	for i := range t.stops {
		if s := &t.stops[i]; s.wave > t.gate && s.set != nil && (s.visit == nil || !s.down) && s.reason().givesWayToWave() && !t.goesBack(s) {
			s.hold = held
		}
	}
}

// weighWave counts a node on which something is to be done or under way.
func (t *tour) weighWave(s *stop) {
	w := &t.waves[s.wave]
	switch {
	case s.set == nil && s.visit == nil:
	case t.acknowledged(s):
		t.block(s, w)
	case s.visit != nil:
		w.toVisit++
		t.weighObstacle(s, w)
	case s.node.Hold != "":
		t.block(s, w)
	case t.runsUnsettled(s):
		w.unsettled++
		w.failed += one(s.state == health.Failed)
		if w.witness == "" {
			w.witness = s.node.Name
		}
	case s.reason().needsSomebody() && s.reason() != WindowTooShort:
		t.block(s, w)
	default:
		w.toVisit++
		t.weighObstacle(s, w)
	}
}

// block counts a node that waits for somebody and is not waited for.
func (t *tour) block(s *stop, w *wave) {
	w.blocked++
	if w.blocker == "" {
		w.blocker = ": " + t.waitsFor(s)
	}
}

// weighObstacle counts a node that is waited for and on which nothing goes on: what was
// evicted has failed or hangs, the last try came to nothing, no window is long enough, or
// another policy is at it.
func (t *tour) weighObstacle(s *stop, w *wave) {
	reason, message, way := s.reason(), "", ""
	if s.hold != nil {
		message = s.hold.message
	}
	if other := t.elsewhere[s.node.Name]; other != "" && reason == "" && s.visit == nil {
		reason, message = NodeBusy, t.busyWith(other)
	}
	switch {
	case reason == Failed:
		way = " (lamplighter resume " + t.policy.Name + " acknowledges it)"
	case reason == WindowTooShort:
		way = " (make a window longer; lamplighter hold " + s.node.Name + " --reason WHY goes on without it)"
	case s.visit == nil && s.refused != nil && (reason == DrainFailed || reason == DisruptionBudget || reason == GateShut):
		way = " (lamplighter hold " + s.node.Name + " --reason WHY goes on without it)"
	case reason != StuckTerminating && reason != NoRoom && reason != NodeBusy:
		return
	}
	w.stuck++
	if w.obstacle == "" {
		w.obstacle = fmt.Sprintf("%s: %s: %s%s", s.node.Name, reason, message, way)
	}
}

// runsUnsettled says that the node has, or is about to get, a pod of the revision
// that is not settled.
func (t *tour) runsUnsettled(s *stop) bool {
	switch s.state {
	case health.Settling, health.Failed, health.Missing, health.Replacing:
		return true
	case health.Unreachable:
		return s.pod != nil && s.set.UpToDate(s.pod)
	default:
		return false
	}
}

// acknowledged says that somebody knows that the node has failed, and wants the
// others to go on.
func (t *tour) acknowledged(s *stop) bool {
	if s.set == nil || s.state == health.Outdated || s.state == health.OutdatedDown {
		return false
	}
	key := Failure{Policy: t.policy.Name, Node: s.node.Name, DaemonSet: s.set.key, Revision: s.set.Revision}
	i, failed := t.book.failed[key]
	return failed && t.book.ledger.Failures[i].Acknowledged
}

// progress finds the state of every wave, and remembers those that have settled.
func (t *tour) progress() {
	revisions, trusted := t.revisions()
	proven := false // an earlier wave has a node that settled
	for i := range t.waves {
		w, key := &t.waves[i], waveKey{t.policy.Name, t.waves[i].Name}
		r := t.book.settled(key, w, revisions)
		w.since = r.Settled
		w.soaked = r.Soaked && !t.now.Before(r.Settled.Add(w.Soak))
		if r.Soaked {
			t.alarm.at(r.Settled.Add(w.Soak)) // of a soak that was made longer
		}
		if w.stuck < w.toVisit && w.visits.others == 0 && w.visits.hold(w.slots()) {
			w.stuck, w.obstacle = w.toVisit, t.waitsFor(w.visits.first)
		}
		w.weigh(t.now, proven, t.doubt)
		t.alarm.at(w.until)
		proven = proven || w.settled > 0 || w.soaked
		if startsAnew := w.failed > 0 || w.toVisit > 0; startsAnew && trusted && !w.soaked {
			w.since = time.Time{}
		}
		if !w.since.IsZero() {
			t.book.waves[key] = SettledWave{
				Policy: key.policy, Wave: key.wave, Nodes: w.selector(), Revisions: revisions, Settled: w.since, Soaked: w.soaked,
			}
		}
	}
}

// weigh finds the state of a wave from its nodes. Proven says that a node of an
// earlier wave has settled; doubt says why the clock is not to be trusted.
func (w *wave) weigh(now time.Time, proven bool, doubt string) {
	switch {
	case w.toVisit > 0 && w.stuck == w.toVisit:
		w.state, w.message = WaveActive, fmt.Sprintf("%d of %d nodes still to settle, and none goes on: %s", w.nodes-w.settled-w.blocked, w.nodes, w.obstacle)
	case w.toVisit > 0:
		w.state, w.message = WaveActive, fmt.Sprintf("%d of %d nodes still to settle", w.nodes-w.settled-w.blocked, w.nodes)
	case w.soaked, w.nodes == 0 && proven:
		w.state = WaveDone
	case w.unsettled == 1:
		w.state, w.message = WaveActive, fmt.Sprintf("node %s is not settled", w.witness)
	case w.unsettled > 1:
		w.state, w.message = WaveActive, fmt.Sprintf("%d nodes are not settled, the first is %s", w.unsettled, w.witness)
	case w.nodes == 0:
		w.state, w.message = WaveBlocked, "no node is in it, and none has settled before: label one, or drop the wave"
	case w.settled == 0:
		w.state, w.message = WaveBlocked, fmt.Sprintf("none of its %d nodes has settled, and all wait for somebody", w.nodes)+w.blocker
	default:
		w.soakFrom(w.since, now, doubt)
	}
}

// soakFrom says whether a settled wave has been watched for long enough. If it is
// not on record when it settled, that is when its youngest pod had. By a clock that
// is not to be trusted no soak ends.
func (w *wave) soakFrom(since, now time.Time, doubt string) {
	if since.IsZero() {
		since = w.settledAt
	}
	w.state, w.since, w.soaked = WaveDone, since, true
	if until := since.Add(w.Soak); now.Before(until) {
		w.state, w.until, w.soaked = WaveSoaking, until, false
		w.message = fmt.Sprintf("settled since %s", since.UTC().Format(time.RFC3339))
	} else if doubt != "" && w.Soak > 0 {
		w.state, w.soaked = WaveSoaking, false
		w.message = fmt.Sprintf("settled since %s, and the clock is not to be trusted: %s", since.UTC().Format(time.RFC3339), doubt)
	}
}

// revisions are those of the policy's DaemonSets, and whether all are of the
// newest template.
func (t *tour) revisions() (byDaemonSet map[string]string, trusted bool) {
	byDaemonSet, trusted = make(map[string]string, len(t.sets)), true
	for _, set := range t.sets {
		d := t.fleet.sets[set]
		byDaemonSet[d.key] = d.Revision
		trusted = trusted && d.trusted()
	}
	return byDaemonSet, trusted
}

// hold is what a wave that is not done means for the later ones.
func (w *wave) hold() hold {
	if w.state == WaveSoaking {
		return hold{Hold, Soaking, w.until, "wave " + w.Name + " soaks: " + w.message}
	}
	return hold{action: Hold, reason: WaveWaiting, message: "wave " + w.Name + ": " + w.message}
}

// givesWayToWave says that a wave whose turn is not yet is more of a reason.
func (r Reason) givesWayToWave() bool {
	switch r {
	case "", WindowShut, Frozen, TooLateToStart, DisruptionBudget:
		return true
	default:
		return false
	}
}

func (r Reason) byWave() bool { return r == WaveWaiting || r == Soaking }

// waveStatus is for a policy that has waves.
func (t *tour) waveStatus() []WaveStatus {
	if len(t.policy.Waves) == 0 {
		return nil
	}
	out := make([]WaveStatus, len(t.waves))
	for i := range t.waves {
		w := &t.waves[i]
		out[i] = WaveStatus{
			Name: w.Name, State: w.state, Nodes: w.nodes, Settled: w.settled, Blocked: w.blocked,
			MaxUnavailable: w.slots(), SoakUntil: w.until, Message: w.message,
		}
	}
	for i := range t.stops {
		if s := &t.stops[i]; s.visit != nil {
			out[s.wave].OutOfService++
		}
	}
	return out
}
