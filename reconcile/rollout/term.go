// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// A Term is the time for which one process leads. It begins with an optimistic
// write, so that a leader of before, who may not know it yet, can record nothing
// more. What that one has recorded may still be on its way to the API server, and
// stays in doubt for a while.
type Term struct {
	// Number is one more than that of the term before. Zero means that nobody
	// has led yet.
	Number int `json:"number"`
	// Leader is the process.
	Leader string `json:"leader,omitempty"`
	// Since is the leader's first instant by a clock that is to be trusted. Zero
	// means that there was none yet.
	Since time.Time `json:"since,omitzero"`
	// Lost says that pods were there when it began, and nothing was remembered. It
	// is dropped when nothing can be on its way any more that was decided before.
	Lost bool `json:"lost,omitzero"`
	// LostBefore is the start of the term in which that was found out; zero when it is
	// this one.
	LostBefore time.Time `json:"lostBefore,omitzero"`
}

// Lead gives the ledger to a leader for his term: as it is, if the term is in
// force, and with a new one if he has none yet (the zero Term) or the ledger was
// lost since. It answers false when another has begun a term since: then his is
// over, and nothing that he decides may be done.
func (l Ledger) Lead(leader string, term Term) (Ledger, bool) {
	switch {
	case term.Number > 0 && term.Number == l.Term.Number && term.Leader == l.Term.Leader:
		return l, true
	case term.Number > 0 && term.Number <= l.Term.Number:
		return l, false
	}
	next := Term{Number: max(term.Number, l.Term.Number) + 1, Leader: leader}
	if l.Term.Lost {
		next.Lost, next.LostBefore = true, l.Term.LostBefore
		if next.LostBefore.IsZero() {
			next.LostBefore = l.Term.Since
		}
	}
	l.Term = next
	return l, true
}

// certain is when it is beyond doubt what has become of the eviction of a step.
// When the leader of another term has decided it counts by that one's clock, and
// he may have sent it since; but not after this term has begun.
func (f *fleet) certain(s *Step) time.Time {
	if s.Term != f.term.Number && s.Settled.IsZero() {
		return f.term.Since.Add(doubt)
	}
	return s.Evicted.Add(doubt)
}

// drainCertain is when it is beyond doubt what has become of the drain of a visit; zero
// when it is done, since of what a leader of before saw on the node nothing is left, and
// when only the leader of this term can have gone on with it, who knows. By the clock of
// the one who did it is over after another while, so that it is when each pass is a term
// of its own.
func (f *fleet) drainCertain(d Drainage) time.Time {
	if d.Since.IsZero() || !d.Done.IsZero() || d.Term == f.term.Number {
		return time.Time{}
	}
	certain := f.term.Since.Add(doubt)
	if last := d.Decided.Add(2 * doubt); !d.Decided.IsZero() && last.Before(certain) {
		return last
	}
	return certain
}

// drainDoubtful says that a leader of before may still cordon the node of a visit and
// evict other pods from it.
func (f *fleet) drainDoubtful(v *Visit) bool { return f.sure.Before(f.drainCertain(v.Drain)) }

// weighLoss finds out whether the term is young and has lost the ledger. Then
// evictions may be on their way that nobody remembers.
func (f *fleet) weighLoss(lost bool, policies []policy.UpgradePolicy, a *alarm) {
	lost = lost && f.term.Number > 0 && f.runPods(policies)
	certain := f.lossCertain()
	if f.term.Lost = (lost || f.term.Lost) && f.sure.Before(certain); f.term.Lost {
		a.at(certain)
		return
	}
	f.term.LostBefore = time.Time{}
}

// lossCertain is when nothing is on its way any more that was decided before the
// loss. The clock of another term, by which that may have been found out, may differ
// from ours.
func (f *fleet) lossCertain() time.Time {
	certain := f.term.Since.Add(doubt)
	if before := f.term.LostBefore; !before.IsZero() && before.Add(2*doubt).Before(certain) {
		return before.Add(2 * doubt)
	}
	return certain
}

// runPods says that a pod of a policy's DaemonSet is there.
func (f *fleet) runPods(policies []policy.UpgradePolicy) bool {
	return slices.ContainsFunc(policies, func(p policy.UpgradePolicy) bool {
		return slices.ContainsFunc(p.DaemonSets, func(name types.NamespacedName) bool {
			set, exists := f.bySet[name]
			return exists && f.populated[set]
		})
	})
}

// forgot says that there may be visits which nobody remembers.
func (t *tour) forgot() bool { return t.book.lost || t.term.Lost }

// heldByLoss keeps everything as it is for as long.
func (t *tour) heldByLoss(*stop) hold {
	if !t.term.Lost {
		return hold{}
	}
	return hold{Hold, Checking, t.after(t.lossCertain()), "nothing is on record of what was done before, and evictions may be on their way"}
}

// doubtful says that the eviction may have been sent although its pod looks
// untouched, or may be yet. By a clock that is not to be trusted it always may.
func (f *fleet) doubtful(s *Step) bool { return f.underWay[s.Pod] || f.sure.Before(f.certain(s)) }

// mayBeOn says that the pod may be on its way already, and that our view of its
// revision may be as old as that of the pod.
func (f *fleet) mayBeOn(s *Step, p *health.Pod) bool { return p.UID == s.Pod && f.doubtful(s) }
