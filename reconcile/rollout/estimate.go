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

// estimate is how long a visit of the policy takes: what 95 of 100 measured
// ones took at most, or visitDuration until enough have been measured. Visits
// that failed say nothing about the others, nor do those in which something was
// stuck: with them no window might be long enough, and none would be measured
// that shows otherwise.
type estimate struct {
	whole     time.Duration // until all pods have settled
	afterJobs time.Duration // the same without the Jobs that come first
	replacing time.Duration // without the drain either
	verifying time.Duration // of the Jobs that come last, and need no window; zero until measured
}

func newEstimate(p policy.UpgradePolicy, finished []Visit) estimate {
	var usable []Visit
	for _, v := range finished {
		if v.Policy == p.Name && v.Outcome == Settled && v.replacing() > 0 && !v.wasStuck(p) {
			usable = append(usable, v)
		}
	}
	if len(usable) < enough {
		return estimate{whole: p.VisitDuration, afterJobs: p.VisitDuration, replacing: p.VisitDuration}
	}
	return estimate{
		whole: most(usable, Visit.Took), afterJobs: most(usable, Visit.afterJobs),
		replacing: most(usable, Visit.replacing), verifying: most(usable, Visit.verifying),
	}
}

// VisitLength is how long a visit of a policy is expected to need a window.
func VisitLength(p policy.UpgradePolicy, l Ledger) time.Duration {
	return newEstimate(p, l.Finished).whole
}

// most is what 95 of 100 took at most.
func most(visits []Visit, length func(Visit) time.Duration) time.Duration {
	took := make([]time.Duration, len(visits))
	for i, v := range visits {
		took[i] = length(v)
	}
	slices.Sort(took)
	return took[(len(took)*95+99)/100-1]
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
