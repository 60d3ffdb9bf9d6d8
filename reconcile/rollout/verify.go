// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// verified runs the Jobs that come after a visit, and says whether all have
// succeeded. Until then the stop says what is waited for. One that has failed is
// a failure on record; when that is acknowledged it counts as passed.
func (t *tour) verified(s *stop) bool {
	last := s.visit.lastSettled()
	if last == nil || !t.verifies {
		return true
	}
	for _, g := range t.policy.JobGatesOf(s.wave, policy.After) {
		job := t.jobOf(s, g)
		r := t.run(s, job)
		if r == nil {
			s.hold = t.share(t.startJob(s, job))
			return false
		}
		if t.followJob(r, job); r.Ended.IsZero() {
			s.hold = t.share(r.waits(g))
			return false
		}
		if r.Failed && !t.excused(s, *last, g, r) {
			s.hold = t.share(hold{action: Hold, reason: Failed, message: "gate " + g.Name + ": " + r.Message})
			return false
		}
	}
	for _, step := range s.visit.Steps {
		t.book.prove(step.DaemonSet, step.To)
	}
	return true
}

// excused puts the failure of a Job on record, and says whether somebody has
// acknowledged it.
func (t *tour) excused(s *stop, last Step, g policy.Gate, r *JobRun) bool {
	f := Failure{
		Policy: t.policy.Name, Node: s.node.Name, DaemonSet: last.DaemonSet, Revision: last.To, Gate: g.Name,
		Message: "gate " + g.Name + ": " + r.Message, At: r.Ended,
	}
	t.book.fail(f)
	return t.book.ledger.Failures[t.book.failed[f.key()]].Acknowledged
}

// lastSettled is the step that settled last; nil when none has.
func (v *Visit) lastSettled() *Step {
	var last *Step
	for i := range v.Steps {
		if s := &v.Steps[i]; !s.Settled.IsZero() && (last == nil || s.Settled.After(last.Settled)) {
			last = s
		}
	}
	return last
}

// adoptVerifying makes up for a ledger that was lost: a node that has settled so
// lately that its Job may still run is taken for one that we visit.
func (t *tour) adoptVerifying(s *look) {
	if !t.forgot() || !t.verifies || s.visit != nil || s.set != nil || s.shown.set == nil || !s.wanted || !t.rollingOut() {
		return
	}
	var longest time.Duration
	for _, g := range t.policy.JobGatesOf(s.wave, policy.After) {
		longest = max(longest, g.Job.Timeout)
	}
	if t.youngest.IsZero() || !t.now.Before(t.youngest.Add(longest)) {
		return
	}
	d := s.shown.set
	s.visit = t.book.begin(Visit{
		Policy: t.policy.Name, Node: s.node.Name, Commit: t.commit, Started: t.now,
		Steps: []Step{{DaemonSet: d.key, To: d.Revision, Evicted: t.youngest, Settled: t.youngest}},
	})
	s.begun = true
}

// verifying says that a visit waits for its last Job, or that it has failed.
func (t *tour) verifying() bool {
	return slices.ContainsFunc(t.stops, func(s stop) bool { return s.set == nil && s.visit != nil && s.reason() != "" })
}

// rollingOut says that pods of another revision are left.
func (t *tour) rollingOut() bool {
	return slices.ContainsFunc(t.sets, func(set int) bool { return t.fleet.outdated[set] > 0 })
}

// waitForOthers lets a visit end between two DaemonSets of which the next has to wait
// for other nodes: the Jobs that come after a visit run now, for what has settled.
// Else the others might wait for the very revision that this one has settled on and
// has not verified.
func (t *tour) waitForOthers(s *stop) {
	if t.endsHalfWay(s) && !t.verifiesAlready(s) && t.verified(s) {
		t.endHalfWay(s)
		t.alarm.at(t.now.Add(lookSoon))
	}
}

// endWaiting ends the visits whose Jobs have been started half-way: they go on no
// more, since these must not be taken for the Jobs of what comes next.
func (t *tour) endWaiting() {
	if !t.verifies {
		return
	}
	changed := false
	for i := range t.stops {
		s := &t.stops[i]
		if !t.endsHalfWay(s) || !t.verifiesAlready(s) {
			continue
		}
		failures := len(t.book.ledger.Failures)
		if t.verified(s) {
			t.endHalfWay(s)
		}
		changed = changed || s.visit == nil || len(t.book.ledger.Failures) > failures
	}
	if changed {
		t.judge()
	}
}

// endsHalfWay says that a visit may end between two DaemonSets: something of it has
// settled and nothing is under way.
func (t *tour) endsHalfWay(s *stop) bool {
	return t.verifies && s.set != nil && s.visit != nil && s.underWay == 0 && !s.down && s.visit.lastSettled() != nil && !t.drainInDoubt(s.visit)
}

func (t *tour) endHalfWay(s *stop) {
	t.book.end(s.visit, s.visit.outcome(), t.now)
	s.visit, s.step, s.begun = nil, nil, false
}

// verifiesAlready says that a Job that comes after the visit, for the node as it is,
// is on record.
func (t *tour) verifiesAlready(s *stop) bool {
	return slices.ContainsFunc(t.policy.JobGatesOf(s.wave, policy.After), func(g policy.Gate) bool {
		return t.run(s, t.jobOf(s, g)) != nil
	})
}

// otherRevision tells the work of a Job on a node that is half-way from that on one
// where all is new.
func (t *tour) otherRevision(s *stop, set int) string {
	node, ok := t.fleet.byNode[s.node.Name]
	if !ok {
		return ""
	}
	d := t.fleet.sets[set]
	for _, p := range t.podsOf(node, set, nil) {
		if !d.UpToDate(p) && !p.Deleting {
			return "<" + p.Hash
		}
	}
	return ""
}
