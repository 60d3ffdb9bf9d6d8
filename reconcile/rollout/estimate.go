// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
)

const (
	// enough measured visits say more than the policy's guess.
	enough = 5
	// keptVisits is how many finished visits are remembered, and keptSteps how
	// many steps of theirs, so that the ledger fits into a ConfigMap whatever
	// the number of DaemonSets of a policy.
	keptVisits, keptSteps = 500, 1500
)

// lengths say how long a visit of the policy takes: visitDuration until enough have
// been measured. Visits that failed say nothing about the others, nor do those in which
// something was stuck: with them no window might be long enough, and none would be
// measured that shows otherwise. What the policy does no more counts no more.
type lengths struct {
	most estimate // what 95 of 100 measured ones took at most
	half estimate // what half of them did
}

// estimate is how long a visit takes, part by part.
type estimate struct {
	whole     time.Duration // until all pods have settled
	afterJobs time.Duration // the same without the Jobs that come first
	replacing time.Duration // without the drain either
	verifying time.Duration // of the Jobs that come last, and need no window; zero until measured
}

func newLengths(p policy.UpgradePolicy, finished []Visit) lengths {
	does, took := newDoing(p), measured{}
	for _, v := range finished {
		if v.Policy != p.Name || v.Outcome != Settled || v.wasStuck(p) {
			continue
		}
		if v = does.only(v); v.replacing() > 0 {
			took.add(v, len(finished))
		}
	}
	if len(took.whole) < enough {
		guess := estimate{whole: p.VisitDuration, afterJobs: p.VisitDuration, replacing: p.VisitDuration}
		return lengths{guess, guess}
	}
	took.sort()
	return lengths{most: took.by(95), half: took.by(50)}
}

// measured is how long visits took, part by part.
type measured struct{ whole, afterJobs, replacing, verifying []time.Duration }

// add takes in a visit, of at most so many.
func (m *measured) add(v Visit, most int) {
	for _, part := range []struct {
		of   *[]time.Duration
		took time.Duration
	}{{&m.whole, v.Took()}, {&m.afterJobs, v.afterJobs()}, {&m.replacing, v.replacing()}, {&m.verifying, v.verifying()}} {
		if *part.of == nil {
			*part.of = make([]time.Duration, 0, most)
		}
		*part.of = append(*part.of, part.took)
	}
}

func (m *measured) sort() {
	for _, part := range [][]time.Duration{m.whole, m.afterJobs, m.replacing, m.verifying} {
		slices.Sort(part)
	}
}

// by is what so many of 100 visits took at most.
func (m *measured) by(percent int) estimate {
	at := (len(m.whole)*percent+99)/100 - 1
	return estimate{whole: m.whole[at], afterJobs: m.afterJobs[at], replacing: m.replacing[at], verifying: m.verifying[at]}
}

// doing is what a policy does in a visit.
type doing struct {
	drains     bool
	jobs       []string // of its gates
	daemonSets []string
}

func newDoing(p policy.UpgradePolicy) doing {
	d := doing{drains: p.Drain != nil}
	for _, g := range p.AllGates() {
		if g.Job.When != "" {
			d.jobs = append(d.jobs, g.Name)
		}
	}
	for _, name := range p.DaemonSets {
		d.daemonSets = append(d.daemonSets, name.String())
	}
	return d
}

// only is a visit without what is not done any more.
func (d doing) only(v Visit) Visit {
	if !d.drains {
		v.Drain = Drainage{}
	}
	v.Jobs = without(v.Jobs, func(r JobRun) bool { return !slices.Contains(d.jobs, r.Gate) })
	v.Steps = without(v.Steps, func(s Step) bool { return !slices.Contains(d.daemonSets, s.DaemonSet) })
	return v
}

// without is a list without some of what it has; it stays as it is.
func without[T any](list []T, unwanted func(T) bool) []T {
	if !slices.ContainsFunc(list, unwanted) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), unwanted)
}

// left is how long a visit that has evicted nothing yet is to take, or what is left of
// it. Jobs and drains that have begun can be given up at any time.
func (e estimate) left(v *Visit) (takes time.Duration, what string) {
	switch {
	case v == nil:
		return e.whole, "a visit"
	case !v.Drain.Since.IsZero():
		return e.replacing, "the rest of the visit"
	case len(v.Jobs) > 0:
		return e.afterJobs, "the rest of the visit"
	}
	return e.whole, "a visit"
}

// VisitLength is how long a visit of a policy is expected to need a window, on the nodes
// for which it may be the longest.
func VisitLength(p policy.UpgradePolicy, l Ledger, now time.Time) time.Duration {
	anywhere := p.Calendar
	anywhere.Allows = slices.Clone(anywhere.Allows)
	for i := range anywhere.Allows {
		anywhere.Allows[i].Selector = nil
	}
	takes, ahead := newLengths(p, l.Finished), anywhere.At(now)
	if ahead.Any().NextOpen.IsZero() || ahead.Fits(nil, takes.most.whole).Found {
		return takes.most.whole
	}
	return takes.half.whole
}

// wasStuck says that a pod was waited for longer than it may take one to go and
// the next one to settle.
func (v *Visit) wasStuck(p policy.UpgradePolicy) bool {
	return slices.ContainsFunc(v.Steps, func(s Step) bool {
		return s.Settled.Sub(s.Evicted) > time.Duration(s.GraceSeconds)*time.Second+p.TerminationTimeout+p.ReadyTimeout
	})
}

// trim keeps the newest finished visits.
func trim(finished []Visit) []Visit {
	steps := 0
	for i := len(finished) - 1; i >= 0; i-- {
		steps += len(finished[i].Steps)
		if len(finished)-i > keptVisits || steps > keptSteps {
			return slices.Clone(finished[i+1:])
		}
	}
	return finished
}
