// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// status sums a tour up, after its evictions are decided.
func (t *tour) status() PolicyStatus {
	s := PolicyStatus{
		Name: t.policy.Name, DaemonSets: t.counts, Window: t.window,
		Nodes: t.wanted, MaxUnavailable: t.slots(), OutOfService: t.visits(),
		Halted: t.halted != "", HaltMessage: t.halted, Estimate: t.estimate,
	}
	s.Remaining, s.Blocked = t.leftOver, t.leftOver
	w := work{lanes: s.MaxUnavailable, first: t.policy.MaxFailures + 1}
	for i := range t.stops {
		stop := &t.stops[i]
		if stop.set == nil {
			continue
		}
		s.Remaining++
		switch {
		case stop.hold.reason.needsSomebody():
			s.Blocked++
			w.lanes -= one(stop.visit != nil)
		case stop.visit != nil && stop.hold.reason != Halted && stop.hold.reason != Paused:
			w.underWay++
		default:
			w.waiting++
			w.proven = w.proven || t.book.ledger.Governed[stop.set.key].Proven == stop.set.Revision
		}
	}
	if s.Remaining > 0 {
		s.ETA, s.Never = t.finish(w, s)
	}
	return s
}

// needsSomebody says that time alone does not end a hold.
func (r Reason) needsSomebody() bool {
	switch r {
	case NodeHeld, DaemonSetHeld, NodeNotReady, WouldNotReturn, Failed, StuckTerminating:
		return true
	default:
		return false
	}
}

// never says why a policy does not get to its end, whatever the windows.
func (t *tour) never(w work, s PolicyStatus) string {
	switch {
	case w.waiting == 0 && w.underWay == 0:
		return fmt.Sprintf("all %d nodes that remain wait for somebody", s.Remaining)
	case w.waiting == 0:
		return ""
	case s.Halted:
		return "halted: " + s.HaltMessage
	case t.paused != nil:
		return "paused: " + t.paused.Reason
	case w.lanes <= 0:
		return fmt.Sprintf("all %d slots are held by nodes that wait for somebody", s.MaxUnavailable)
	default:
		return ""
	}
}
