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
// that failed say nothing about the others.
func estimate(p policy.UpgradePolicy, finished []Visit) time.Duration {
	var took []time.Duration
	for i := range finished {
		if v := &finished[i]; v.Policy == p.Name && v.Outcome == Settled {
			if d := v.Took(); d > 0 {
				took = append(took, d)
			}
		}
	}
	if len(took) < enough {
		return p.VisitDuration
	}
	slices.Sort(took)
	return took[(len(took)*95+99)/100-1]
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
