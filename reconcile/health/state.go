// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"time"
)

// A Situation is one node for one DaemonSet.
type Situation struct {
	Node      *Node
	DaemonSet *DaemonSet
	Placement Placement
	Pods      []*Pod // of this DaemonSet on this node, in any order
	Visit     Visit  // what we did here; zero when nothing
	Limits
}

// A Visit is what we did about one DaemonSet on one node. The zero value means
// that we have not touched it, so what is wrong there was wrong before.
type Visit struct {
	Evicted     time.Time     // when the last eviction was decided
	GracePeriod time.Duration // of the pod that was evicted
	Gone        time.Time     // when the node was first seen without a pod since; zero when it was not before
	Replaced    time.Time     // when the first new pod was created; zero when none was seen
}

// Limits are the times after which waiting becomes a verdict.
type Limits struct {
	MinReady           time.Duration // Ready this long is settled; the DaemonSet's own counts if longer
	ReadyTimeout       time.Duration // a new pod that is not settled by then has failed
	TerminationTimeout time.Duration // a pod still there this long after its grace period is stuck
}

// A Verdict is the state of a node for one DaemonSet.
type Verdict struct {
	State   State
	Pod     *Pod      // the pod it is about; nil when there is none
	Until   time.Time // when the state changes if nothing but time passes; zero when it does not
	Message string    // what is wrong or awaited, in the words of whoever knows; "" when nothing is
	Overdue bool      // the visit has failed; so it has when the State is Failed, or Unreachable for too long
}

// Classify says what state a node is in at the instant now.
//
// Ready is taken from the node first: of a node that is not Ready nothing else
// is known. A pod of the revision that is not going wins over all others; an
// old pod object that lingers beside it changes nothing.
func Classify(s Situation, now time.Time) Verdict {
	visited := s.visited()
	switch p := s.Placement; {
	case !p.ShouldContinue, !p.ShouldRun && len(s.Pods) == 0 && (s.Node.Ready || !visited):
		return Verdict{State: NotWanted, Message: p.Reason}
	case !s.Node.Ready:
		return s.classifyUnreachable(now)
	}
	if pod := s.liveNew(); pod != nil {
		return s.classifyNew(pod, now)
	}
	if pod := s.liveOld(); pod != nil {
		return s.classifyOld(pod, now)
	}
	if pod := s.going(); pod != nil {
		return s.classifyGoing(pod, now)
	}
	if visited {
		return s.classifyAbsent(now)
	}
	return Verdict{State: Missing, Message: "the DaemonSet controller has not created a pod"}
}

func (s *Situation) visited() bool { return !s.Visit.Evicted.IsZero() }

// classifyUnreachable gives a node that stopped being Ready after our eviction
// readyTimeout to come back: the new pod may be why. One that was not Ready
// before is nobody's failure.
func (s *Situation) classifyUnreachable(now time.Time) Verdict {
	v := Verdict{State: Unreachable, Pod: s.liveNew(), Message: s.Node.NotReadyReason}
	if v.Pod == nil {
		v.Pod = s.liveOld()
	}
	if !s.visited() || (v.Pod != nil && !s.DaemonSet.UpToDate(v.Pod)) {
		return v
	}
	v.Until = latest(s.Visit.Evicted, s.Node.Since).Add(s.ReadyTimeout)
	if !now.Before(v.Until) {
		v.Until, v.Overdue = time.Time{}, true
		v.Message = joinWords(fmt.Sprintf("not Ready for %s since the eviction", shortDuration(s.ReadyTimeout)), v.Message)
	}
	return v
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// liveNew is the newest pod of the revision that is not going: a Failed one is
// replaced by the controller, and what counts is what came of it.
func (s *Situation) liveNew() *Pod {
	var found *Pod
	for _, p := range s.Pods {
		if p.Deleting || !s.DaemonSet.UpToDate(p) {
			continue
		}
		if found == nil || younger(p, found) {
			found = p
		}
	}
	return found
}

// liveOld is the oldest pod of another revision that is not going.
func (s *Situation) liveOld() *Pod {
	var found *Pod
	for _, p := range s.Pods {
		if p.Deleting || s.DaemonSet.UpToDate(p) {
			continue
		}
		if found == nil || younger(found, p) {
			found = p
		}
	}
	return found
}

// going is the pod whose grace period ends first.
func (s *Situation) going() *Pod {
	var found *Pod
	for _, p := range s.Pods {
		if !p.Deleting || p.Ended() {
			continue
		}
		if found == nil || p.DeletionDeadline.Before(found.DeletionDeadline) ||
			(p.DeletionDeadline.Equal(found.DeletionDeadline) && p.Name.Name < found.Name.Name) {
			found = p
		}
	}
	return found
}

func younger(a, b *Pod) bool {
	if !a.Created.Equal(b.Created) {
		return a.Created.After(b.Created)
	}
	return a.Name.Name > b.Name.Name
}

// MinReadyOf is how long a pod of the DaemonSet must be Ready to be available.
func (l Limits) MinReadyOf(d *DaemonSet) time.Duration {
	return max(l.MinReady, time.Duration(d.MinReadySeconds)*time.Second)
}

// classifyNew judges a pod of the revision. A Ready pod never fails: it settles
// soon or stops being Ready. One that is not Ready has readyTimeout from its
// creation or, when it had been Ready without us, from when it stopped; and
// again from when its node has come back.
func (s *Situation) classifyNew(p *Pod, now time.Time) Verdict {
	if available := s.AvailableAt(s.DaemonSet, p); p.Ready && !p.Ended() {
		if !now.Before(available) {
			return Verdict{State: Current, Pod: p}
		}
		return Verdict{State: Settling, Pod: p, Until: available, Message: p.Problem.String()}
	}
	v := Verdict{State: Settling, Pod: p, Message: p.Problem.String()}
	if p.Ended() || p.Problem.Fatal() {
		v.State, v.Overdue = Failed, true
		return v
	}
	v.Until = s.deadline(p)
	if !now.Before(v.Until) {
		v.State, v.Until, v.Overdue = Failed, time.Time{}, true
		v.Message = joinWords(fmt.Sprintf("not settled within %s", shortDuration(s.ReadyTimeout)), v.Message)
	}
	return v
}

func (s *Situation) deadline(p *Pod) time.Time {
	from := p.Created
	switch {
	case !s.visited():
		from = latest(from, p.UnreadySince)
	case !s.Visit.Replaced.IsZero():
		from = s.Visit.Replaced // however often the pod was re-created since
	}
	return latest(from, s.Node.Since).Add(s.ReadyTimeout) // nothing happens on a node that is down
}

func (s *Situation) classifyOld(p *Pod, now time.Time) Verdict {
	v := Verdict{State: OutdatedDown, Pod: p}
	if p.Ready && !p.Ended() {
		if v.Until = s.AvailableAt(s.DaemonSet, p); !now.Before(v.Until) {
			return Verdict{State: Outdated, Pod: p}
		}
	}
	v.Message = p.Problem.String()
	return v
}

func (s *Situation) classifyGoing(p *Pod, now time.Time) Verdict {
	v := Verdict{State: Replacing, Pod: p, Until: p.DeletionDeadline.Add(s.TerminationTimeout)}
	if !now.Before(v.Until) {
		v.State, v.Until = Stuck, time.Time{}
		v.Message = fmt.Sprintf("pod %s is still there %s after its grace period%s", p.Name, shortDuration(s.TerminationTimeout), p.heldBy())
	}
	return v
}

// heldBy says which finalizers keep a pod; "" without any, when the kubelet has
// not confirmed its end.
func (p *Pod) heldBy() string {
	if len(p.Finalizers) == 0 {
		return ""
	}
	return ", held by " + strings.Join(p.Finalizers, ", ")
}

// classifyAbsent waits for the pod after an eviction. When the old pod vanished
// is not known, so the wait covers the longest that it may have taken. One that
// took longer is waited for from when it was first seen gone: before that no
// other could start.
func (s *Situation) classifyAbsent(now time.Time) Verdict {
	wait := s.Visit.GracePeriod + s.TerminationTimeout + s.ReadyTimeout
	v := Verdict{State: Replacing, Until: latest(s.Visit.Evicted, s.Node.Since).Add(wait)}
	since := "of the eviction"
	if late := s.goneSince(now).Add(s.ReadyTimeout); late.After(v.Until) {
		v.Until, wait, since = late, s.ReadyTimeout, "after the old one was gone"
	}
	if !now.Before(v.Until) {
		v.State, v.Until, v.Overdue = Failed, time.Time{}, true
		v.Message = fmt.Sprintf("no new pod within %s %s", shortDuration(wait), since)
	}
	return v
}

// goneSince is since when the node is known to be without a pod: from now on if it
// was not before.
func (s *Situation) goneSince(now time.Time) time.Time {
	if s.Visit.Gone.IsZero() {
		return now
	}
	return s.Visit.Gone
}

// Available says whether the pod is Ready and has been for long enough.
func (l Limits) Available(d *DaemonSet, p *Pod, now time.Time) bool {
	return p.Ready && !p.Deleting && !now.Before(l.AvailableAt(d, p))
}

// AvailableAt is when a Ready pod becomes, or became, available.
func (l Limits) AvailableAt(d *DaemonSet, p *Pod) time.Time {
	return p.ReadySince.Add(l.MinReadyOf(d))
}
