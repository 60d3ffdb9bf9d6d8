// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// FreesSlot is what frees the slot of a node that has failed.
const FreesSlot = "mend it, or commit another version; resume frees no slot"

// KeptSlots are the nodes of a policy that have failed in a visit which is still
// open, by name: they keep their slots, also when somebody acknowledges that. What
// has come after the visit of a node that is well, a Job, keeps none then.
func (l Ledger) KeptSlots(policy string) []string {
	var nodes []string
	for i := range l.Visits {
		v := &l.Visits[i]
		if v.Policy == policy && slices.ContainsFunc(l.Failures, func(f Failure) bool {
			s := v.step(f.DaemonSet)
			return f.Node == v.Node && f.Gate == "" && s != nil && s.To == f.Revision && s.Settled.IsZero()
		}) {
			nodes = append(nodes, v.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// stuckVisits are those that hold a slot and wait for somebody. When they hold all
// of them nothing goes on, though fewer nodes may have failed than halt the policy.
type stuckVisits struct {
	count  int
	failed int   // of those, the ones that have failed
	others int   // visits that wait for nobody
	first  *stop // by name
}

// take counts the visit of a stop, if there is one.
func (v *stuckVisits) take(s *stop) {
	switch {
	case s.visit == nil:
		return
	case !s.needsSomebody():
		v.others++
		return
	case v.first == nil:
		v.first = s
	}
	v.count++
	v.failed += one(s.reason() == Failed)
}

// hold says that they hold so many slots.
func (v *stuckVisits) hold(slots int) bool { return v.count > 0 && v.count >= slots }

// see says where to look when they hold so many slots, or when no visit goes on; ""
// when others do.
func (v *stuckVisits) see(slots int) string {
	if !v.hold(slots) && (v.count == 0 || v.others > 0) {
		return ""
	}
	return fmt.Sprintf(", and none goes on: see %s (%s)", v.first.node.Name, v.first.reason())
}

// fullOf says that all slots of a wave are held by them, why that is no halt, and
// what frees one.
func (t *tour) fullOf(w *wave, v *stuckVisits) string {
	slots, of := w.slots(), ""
	if w.Name != "" {
		of = " of wave " + w.Name
	}
	text := "the only slot" + of + " is held by a node that waits for somebody"
	if slots > 1 {
		text = fmt.Sprintf("all %d slots%s are held by nodes that wait for somebody", slots, of)
	}
	if v.failed > 0 && t.policy.MaxFailures >= slots {
		text += fmt.Sprintf(", which is no halt with maxFailures %d", t.policy.MaxFailures)
	}
	return text + ": " + t.waitsFor(v.first)
}

// waitsFor is a stop that waits for somebody, with what ends that.
func (t *tour) waitsFor(s *stop) string {
	text := fmt.Sprintf("%s: %s", s.node.Name, s.reason())
	if s.hold != nil && s.hold.message != "" {
		text += ": " + s.hold.message
	}
	switch {
	case s.reason() == Failed && s.set == nil: // its pods have settled, and a Job after them has not succeeded
		return text + " (lamplighter resume " + t.policy.Name + " lets it pass)"
	case s.reason() == Failed:
		return text + " (" + FreesSlot + ")"
	case s.reason() == NodeNotReady, s.reason() == StuckTerminating:
		return text + " (mend the node, or delete it)"
	case s.reason() == NodeHeld:
		return text + " (lamplighter release " + s.node.Name + ")"
	default:
		return text
	}
}

// unhalting says in which wave failed nodes hold all slots before there are enough to
// halt; "" when there is none. Of plain numbers it is known without a cluster, and
// said when they are read.
func (t *tour) unhalting() string {
	for i := range t.waves {
		w := &t.waves[i]
		if slots := w.slots(); w.MaxUnavailable.Type == intstr.String && w.nodes > slots && slots <= t.policy.MaxFailures {
			of := ""
			if w.Name != "" {
				of = " of wave " + w.Name
			}
			return fmt.Sprintf("maxFailures %d is not less than maxUnavailable%s, %s of %d nodes, which is %d: failed nodes keep their slots, so that after %d nothing goes on, and the policy neither halts nor goes back",
				t.policy.MaxFailures, of, w.MaxUnavailable.StrVal, w.nodes, slots, slots)
		}
	}
	return ""
}
