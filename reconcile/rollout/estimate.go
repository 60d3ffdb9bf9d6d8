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
func estimate(p policy.UpgradePolicy, finished []Visit) time.Duration {
	return measured(p, finished, Visit.Took)
}

// estimateDrained is the same without the drain: what is yet to come once that
// has begun, since it can be given up at any time.
func estimateDrained(p policy.UpgradePolicy, finished []Visit) time.Duration {
	return measured(p, finished, Visit.replacing)
}

func measured(p policy.UpgradePolicy, finished []Visit, length func(Visit) time.Duration) time.Duration {
	var took []time.Duration
	for i := range finished {
		if v := &finished[i]; v.Policy == p.Name && v.Outcome == Settled && v.replacing() > 0 && !v.wasStuck(p) {
			took = append(took, length(*v))
		}
	}
	if len(took) < enough {
		return p.VisitDuration
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
