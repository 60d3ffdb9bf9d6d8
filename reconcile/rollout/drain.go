// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// A Drainage is the part of a visit before its first eviction, in which the node
// is cordoned and its other pods go. The zero Drainage is that of a visit
// without one.
type Drainage struct {
	Since   time.Time `json:"since,omitzero"`
	Done    time.Time `json:"done,omitzero"`
	Message string    `json:"message,omitempty"` // what keeps it from being done
	Decided time.Time `json:"decided,omitzero"`  // when it was last decided, to half a minute
	Term    int       `json:"term,omitzero"`     // in which that was; see [Term]
}

// An Uncordon is a node that carries our mark without need: no visit of the
// policy that put it there is open, or the policy drains no more.
type Uncordon struct {
	Node   string
	Policy string
	// MarkOnly: the cordon is not ours to take off. Somebody has uncordoned the node
	// already and may cordon it again, or has done so.
	MarkOnly bool
}

// CordonMark is the value of [health.CordonedByAnnotation] for a policy of an
// instance: who may take the cordon off.
func CordonMark(instance, policy string) string { return instance + "/" + policy }

// Drained records what came of one look at a node that is drained.
func (l Ledger) Drained(d Decision, done bool, message string, now time.Time) Ledger {
	l.Visits = cloneVisits(l.Visits)
	for i := range l.Visits {
		v := &l.Visits[i]
		if v.Policy != d.Policy || v.Node != d.Node || v.Drain.Since.IsZero() {
			continue
		}
		v.Drain.Done, v.Drain.Message = time.Time{}, message
		if done {
			v.Drain.Done, v.Drain.Message = now, ""
		}
	}
	return l
}

// preparing says that the visit has evicted nothing of its policy yet: its Jobs
// run, or the node is drained.
func (v *Visit) preparing() bool {
	return v != nil && (!v.Drain.Since.IsZero() || len(v.Jobs) > 0) && len(v.Steps) == 0
}

// marked says that the policy has cordoned the node.
func (t *tour) marked(n *health.Node) bool { return t.markedFor(n, t.policy.Name) }

func (f *fleet) markedFor(n *health.Node, policy string) bool {
	return n.CordonedBy != "" && n.CordonedBy == CordonMark(f.instance, policy) && n.CordonTakenBy == ""
}

// mustDrain says that the node has to be drained before its next eviction.
func (t *tour) mustDrain(s *stop) bool {
	if t.policy.Drain == nil || (s.visit != nil && s.begun) {
		return false
	}
	return s.visit == nil || s.visit.Drain.Done.IsZero() || !s.node.Cordoned()
}

// drain records the intent to empty a node, or goes on with it.
func (t *tour) drain(s *stop) hold {
	if s.visit == nil {
		s.visit = t.book.begin(Visit{Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now})
		t.trials[s.set.key]++
	}
	h := hold{action: Drain, reason: Draining, message: s.visit.Drain.Message}
	t.decideDrain(s.visit)
	s.visit.Drain.Done = time.Time{} // if it was, somebody has uncordoned the node since
	if until := s.visit.Drain.Since.Add(t.policy.Drain.Timeout); t.now.Before(until) {
		h.until = until
	} else {
		s.visit.Drain.Since, s.visit.Drain.Message = t.now, ""
	}
	t.alarm.at(s.visit.Drain.Since.Add(t.policy.Drain.Timeout))
	return h
}

// decideDrain records who decides to go on with a drain, and when: not each time, since
// each is a write. While it is in doubt what others do, they are on record.
func (t *tour) decideDrain(v *Visit) {
	if !t.drainDoubtful(v) {
		v.Drain.Term = t.term.Number
	}
	if t.now.Sub(v.Drain.Decided) >= doubt/2 {
		v.Drain.Decided = t.now
	}
}

// drainInDoubt says that a visit must not end, since its node may still be drained.
func (t *tour) drainInDoubt(v *Visit) bool {
	t.alarm.at(t.drainCertain(v.Drain))
	return t.drainDoubtful(v)
}

// awaitDrain is the hold of a visit that waits for nothing else.
func (t *tour) awaitDrain(v *Visit) hold {
	return hold{Wait, Checking, t.after(t.drainCertain(v.Drain)), "an earlier leader may still be draining the node"}
}

// giveUpDrain ends a visit whose node is not empty in time.
func (t *tour) giveUpDrain(s *stop) {
	if t.policy.Drain == nil || !s.visit.preparing() || s.visit.Drain.Since.IsZero() || !s.visit.Drain.Done.IsZero() {
		return
	}
	if until := s.visit.Drain.Since.Add(t.policy.Drain.Timeout); t.now.Before(until) {
		t.alarm.at(until)
		return
	}
	if t.drainInDoubt(s.visit) {
		s.hold = t.share(t.awaitDrain(s.visit))
		return
	}
	message := fmt.Sprintf("the node was not drained within %s", t.policy.Drain.Timeout)
	if s.visit.Drain.Message != "" {
		message += ": " + s.visit.Drain.Message
	}
	r := Refusal{
		Policy: t.policy.Name, Node: s.node.Name, DaemonSet: s.set.key, Pod: s.pod.UID, At: t.now,
		Message: message, Drain: true,
	}
	r.Again = t.book.ledger.refusedBefore(r)
	t.book.refuse(r)
	t.forsake(s)
	t.alarm.at(r.triedAgain())
	s.hold, s.refused = t.share(hold{action: Hold, reason: DrainFailed, message: message}), &r
}

// waitsDrained says that a node is up and empty for nothing: what comes next there
// has to wait for a window, or for somebody, and that may be for days.
func (t *tour) waitsDrained(s *stop) bool {
	switch s.reason() {
	case WindowShut, Frozen, ClockUntrusted, Paused, Halted, NotAdmitted:
		return s.begun && !s.down && s.underWay == 0 && t.marked(s.node) && !t.inDoubt(s.visit)
	default:
		return false
	}
}

// leaveUndrained gives back a node that is drained, or about to be, when its next
// eviction cannot follow. An answer that is on its way is waited for, and so is a leader
// of before.
func (t *tour) leaveUndrained(s *stop) {
	waits := s.reason() == Checking && s.hold.until.IsZero()
	if s.reason() != "" && !waits && s.visit != nil && (s.visit.preparing() || t.waitsDrained(s)) && !t.drainInDoubt(s.visit) {
		t.forsake(s)
	}
}

// uncordons finds the nodes that carry a mark of ours without need, whoever has
// died between putting it there and taking it off. That waits for no window, but
// for others who are at work there: most of them cordon no node that is cordoned,
// and do not want it to fill up again.
func (b *book) uncordons(f *fleet, policies []policy.UpgradePolicy, a *alarm) []Uncordon {
	var out []Uncordon
	for _, n := range f.nodes {
		name, ours := strings.CutPrefix(n.CordonedBy, CordonMark(f.instance, ""))
		if !ours || f.instance == "" || n.AtWork {
			continue
		}
		if l, locked := f.locked[n.Name]; locked {
			a.at(l.until)
			continue
		}
		drains := slices.ContainsFunc(policies, func(p policy.UpgradePolicy) bool { return p.Name == name && p.Drain != nil })
		u := Uncordon{Node: n.Name, Policy: name, MarkOnly: !n.Unschedulable || n.CordonTakenBy != ""}
		v := b.open[visitKey{name, n.Name}]
		needed := v != nil && (drains || f.drainDoubtful(v))
		if v != nil && !drains {
			a.at(f.drainCertain(v.Drain))
		}
		if !needed || (u.MarkOnly && !v.preparing()) {
			out = append(out, u)
		}
	}
	return out
}
