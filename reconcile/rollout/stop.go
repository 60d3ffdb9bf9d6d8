// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"lamplighter.dev/reconcile/health"
)

// stop is one node of a tour on which something is to be done or under way. There
// may be as many as there are pods, so it is small.
type stop struct {
	node     *health.Node
	place    int32        // of the node in the fleet
	decision int32        // its place in the plan
	underWay int32        // steps that have not settled
	down     bool         // one of the DaemonSets is not available here
	doubtful bool         // a pod may be on its way, though none looks like it
	begun    bool         // something has come of an eviction
	wave     int          // its place
	domain   string       // "" without a topology, and on nodes without the label
	visit    *Visit       // nil when none is open
	set      *daemonSet   // the one that comes next; nil when all are settled
	step     *Step        // of the visit, about set
	pod      *health.Pod  // of set; nil when there is none
	state    health.State // of the node for set

	refused *Refusal // of the eviction that comes next, when that came to nothing; nil when it did not
	// hold is why nothing may be evicted here, whatever the slots; without a reason
	// it may. At first it is what set does by itself, or what is in the way of its
	// pod, or why the visit is not over although it waits.
	hold *hold
}

// look is a stop while its node is looked at.
type look struct {
	stop
	verdict health.Verdict // about set
	moving  bool           // set is on its way by itself
	shown   shown          // what to speak of when set is nil
	wanted  bool           // one of the DaemonSets should run or go on here
	gone    int            // steps whose DaemonSet should not run here any more
	halfWay bool           // a DaemonSet is not settled on the revision that is live; a newer template may wait
}

// out says that the node is out of service, or may be without our knowing it yet.
func (s *stop) out() bool { return s.down || s.doubtful }

// reason is that of the hold; "" when the next pod may be evicted.
func (s *stop) reason() Reason {
	if s.hold == nil {
		return ""
	}
	return s.hold.reason
}

// consider takes in one DaemonSet of the policy, in the policy's order. The
// first that is not settled comes next, so that a CSI driver is not replaced
// before the network is back. But a pod that moves by itself is waited for
// first, wherever it is in the order, so that one node never has two pods
// down by our doing; a failed one is not, since what comes before it may mend it.
func (s *look) consider(d *daemonSet, step *Step, v health.Verdict, p health.Placement) {
	s.down = s.down || (v.State != health.Current && v.State != health.Outdated && v.State != health.NotWanted)
	switch leftOver := !p.ShouldRun && (v.State == health.Outdated || v.State == health.OutdatedDown); {
	case leftOver:
		s.shown.take(shown{2, d, v.State, "pod " + v.Pod.Name.String() + " is outdated and would not be created again: " + p.Reason})
		return
	case v.State == health.Current && d.trusted():
		s.shown.take(shown{1, d, v.State, ""})
		return
	case v.State == health.NotWanted:
		s.shown.take(shown{0, d, v.State, v.Message})
		return
	}
	s.halfWay = s.halfWay || v.State != health.Current || !d.RevisionObserved
	moving := v.State == health.Settling || v.State == health.Replacing || (v.State == health.Stuck && step != nil)
	if s.set == nil || (moving && !s.moving) {
		s.set, s.step, s.verdict, s.moving = d, step, v, moving
		s.pod, s.state = v.Pod, v.State
	}
}

// shown is the DaemonSet to speak of on a node where nothing is to be done: one
// that is left outdated before one that is settled before one that is not
// wanted, and the first of equals.
type shown struct {
	weight  int
	set     *daemonSet
	state   health.State
	message string
}

func (s *shown) take(o shown) {
	if s.set == nil || o.weight > s.weight {
		*s = o
	}
}

func (s *shown) leftOver() bool { return s.weight == 2 }

// weigh says what has come of a step. It returns whether that is in doubt.
func (s *look) weigh(step *Step, v health.Verdict, p health.Placement, doubtful bool) bool {
	if step == nil {
		return false
	}
	untouched := v.Pod != nil && v.Pod.UID == step.Pod && !v.Pod.Deleting
	left := untouched && !p.ShouldRun && s.node.Ready // it must not be evicted any more
	switch {
	case !step.Settled.IsZero():
		s.begun = true
		return false
	case v.State == health.NotWanted, left && !doubtful:
		s.gone++
		return false
	default:
		s.underWay++
		s.begun = s.begun || !untouched || step.Retried
		doubtful = doubtful && untouched
		s.doubtful = s.doubtful || doubtful
		return doubtful
	}
}

// at is when the eviction was refused; zero when it was not.
func (r *Refusal) at() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.At
}
