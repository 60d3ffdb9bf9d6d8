// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
)

// An Attempt is what came of one decision to evict.
type Attempt struct {
	Decision Decision
	Result   AttemptResult
	Message  string // what the API server said, if it did; for Refused it goes into the ledger
	Err      error  // set exactly when the Result is Errored
}

// An AttemptResult says how the API server took an eviction.
type AttemptResult string

const (
	// Sent: the pod is being evicted.
	Sent AttemptResult = "sent"
	// Refused: a disruption budget does not allow it now, or would not allow the
	// eviction that follows a drain. See [Ledger.Refuse].
	Refused AttemptResult = "refused"
	// Gone: the pod is no longer the one that was decided about. The next plan
	// sees what is there now.
	Gone AttemptResult = "gone"
	// Drained: nothing is left on the node that has to go.
	Drained AttemptResult = "drained"
	// Remaining: something is. See [Ledger.Drained].
	Remaining AttemptResult = "remaining"
	// Errored: it failed for another reason: no right to evict, a webhook, a
	// connection. The next plan tries again and, after a while, gives way.
	Errored AttemptResult = "errored"
)

// Problem is why the eviction came to nothing; "" when it did not, or when nobody said.
func (a Attempt) Problem() string {
	if a.Result == Sent || a.Message != "" || a.Err == nil {
		return a.Message
	}
	return a.Err.Error()
}

// Errored records what was said to an eviction that came to nothing though nobody
// refused it, and says whether that is news.
func (l Ledger) Errored(d Decision, problem string) (Ledger, bool) {
	if d.Pod == nil {
		return l, false
	}
	l.Visits = cloneVisits(l.Visits)
	for i := range l.Visits {
		if v := &l.Visits[i]; v.Policy == d.Policy && v.Node == d.Node {
			if s := v.step(d.DaemonSet.String()); s != nil && s.Pod == d.Pod.UID && s.Problem != problem {
				s.Problem = problem
				return l, true
			}
		}
	}
	return l, false
}

// cameToNothing says that what was tried did, and why if that is known.
func (s *Step) cameToNothing(what string) string {
	if s.Problem == "" {
		return what
	}
	return what + ": " + s.Problem
}

// triedBefore is what is known of earlier tries to evict the pod of a stop; "" when
// nothing is.
func (s *stop) triedBefore() string {
	switch {
	case s.refused != nil && s.refused.Errored:
		return "tried before: " + s.refused.Message
	case s.step != nil && s.pod != nil && s.step.Pod == s.pod.UID && s.step.Problem != "":
		return "tried before: " + s.step.Problem
	}
	return ""
}

// keptRefusals is how many are remembered: enough to let every other node of a large
// cluster have its turn, and so few that the ledger fits into a ConfigMap.
const keptRefusals = 5000

// trimRefusals forgets the oldest ones, since their nodes are the next to be tried
// again: first those after which nothing was done to the node.
func trimRefusals(refusals []Refusal) []Refusal {
	if len(refusals) <= keptRefusals {
		return refusals
	}
	kept := slices.SortedFunc(slices.Values(refusals), func(a, b Refusal) int {
		return cmp.Or(one(b.costly())-one(a.costly()), b.At.Compare(a.At), compareRefusals(a, b))
	})[:keptRefusals]
	slices.SortFunc(kept, compareRefusals)
	return kept
}

// costly says that more than an eviction was tried.
func (r Refusal) costly() bool { return r.Drain || r.Drained || r.Gate != "" }
