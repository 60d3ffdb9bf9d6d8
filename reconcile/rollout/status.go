// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
)

// status sums a tour up, after its evictions are decided.
func (t *tour) status() PolicyStatus {
	s := PolicyStatus{
		Name: t.policy.Name, DaemonSets: t.counts, Window: t.window, Waves: t.waveStatus(),
		Nodes: t.wanted, MaxUnavailable: t.mostVisits(), OutOfService: t.visits(),
		Halted: t.halted != "" || t.rejected.reason != "", HaltMessage: cmp.Or(t.halted, t.rejected.message), HaltEnds: t.haltEnds(),
		Estimate: cmp.Or(t.longest, t.lengths.most.whole), Verifying: t.lengths.most.verifying,
		Paused: t.paused, Proceed: t.hours.proceed, Unhalting: t.unhalting(),
	}
	s.Remaining, s.Blocked = t.leftOver, t.leftOver
	works := t.newWork()
	for i := range t.stops {
		stop := &t.stops[i]
		if stop.set == nil && stop.reason() == "" {
			continue
		}
		s.Remaining++
		switch w := &works[stop.wave]; {
		case stop.needsSomebody():
			s.Blocked++
			w.lanes -= one(stop.visit != nil)
			w.stuck.take(stop)
		case stop.visit != nil && !stop.reason().stopsPolicy():
			w.underWay++
		default:
			w.waiting++
		}
	}
	if s.Remaining > 0 {
		s.Never = t.never(works, s)
	}
	return s
}

// haltEnds is what lets a halted policy go on; "" when it is not halted.
func (t *tour) haltEnds() string {
	switch {
	case t.halted != "":
		return HaltEnds(t.policy.Name)
	case t.rejected.reason != "":
		return "the API server is asked again until it admits the pod, or another version lets it go on"
	}
	return ""
}

// work is what a policy has yet to do in one wave.
type work struct {
	lanes    int // visits at once
	underWay int // visits that are open and can go on
	waiting  int // visits that are yet to start
	stuck    stuckVisits
}

func (t *tour) newWork() []work {
	works := make([]work, len(t.waves))
	for i := range t.waves {
		works[i] = work{lanes: t.waves[i].slots()}
	}
	return works
}

// needsSomebody says that time alone does not end a hold.
func (r Reason) needsSomebody() bool {
	switch r {
	case NodeHeld, DaemonSetHeld, NodeNotReady, NodeMaintenance, NodeCordoned, WouldNotReturn, NoRoom, WindowTooShort, Failed, StuckTerminating:
		return true
	default:
		return false
	}
}

// needsSomebody says that time alone does not end the hold of a stop. A lock may end
// by itself.
func (s *stop) needsSomebody() bool {
	return s.reason().needsSomebody() && (s.reason() != NodeMaintenance || s.hold.until.IsZero())
}

// stopsPolicy says that nothing of the policy goes on.
func (r Reason) stopsPolicy() bool { return r == Halted || r == Paused || r == NotAdmitted }

// never says why a policy does not get to its end, whatever the windows. When
// it does, a [Forecast] says.
func (t *tour) never(works []work, s PolicyStatus) string {
	waiting, underWay, full := 0, 0, -1
	for i, w := range works {
		waiting += w.waiting
		underWay += w.underWay
		if w.waiting > 0 && w.lanes <= 0 && full < 0 {
			full = i
		}
	}
	switch {
	case waiting == 0 && underWay == 0 && t.short.text != "":
		return t.short.text
	case waiting == 0 && underWay == 0:
		return fmt.Sprintf("all %d nodes that remain wait for somebody", s.Remaining)
	case waiting == 0:
		return ""
	case s.Halted:
		return "halted: " + s.HaltMessage
	case t.paused != nil:
		return "paused: " + t.paused.Reason
	case t.window.Doubt != "":
		return "the clock is not to be trusted: " + t.window.Doubt
	case full >= 0:
		return t.fullOf(&t.waves[full], &works[full].stuck)
	default:
		return t.barred(works)
	}
}

// barred says which wave does not get done by time alone, and keeps later ones
// from their turn.
func (t *tour) barred(works []work) string {
	if len(t.policy.Waves) == 0 || t.gate >= len(t.waves)-1 {
		return ""
	}
	w := &t.waves[t.gate]
	idle := works[t.gate].waiting == 0 && works[t.gate].underWay == 0
	if w.state == WaveBlocked || (idle && w.toVisit > 0 && w.stuck == w.toVisit) || (w.toVisit == 0 && w.unsettled > 0 && works[t.gate].waiting == 0) {
		return w.hold().message
	}
	return ""
}
