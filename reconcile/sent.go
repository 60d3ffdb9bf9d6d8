// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"time"

	"lamplighter.dev/reconcile/rollout"
)

// sent are the evictions that the API server has taken, and when. It changes the pod
// that it takes one of: who still sees the pod as it was sees it too late, and need not
// send another.
type sent map[rollout.Eviction]time.Time

// longestLag is for how long a watch may be behind. After that the API server may have
// been set back.
const longestLag = time.Minute

// unsent are the decisions whose evictions are still to be sent.
func (s sent) unsent(due []rollout.Decision, now time.Time) []rollout.Decision {
	maps.DeleteFunc(s, func(_ rollout.Eviction, at time.Time) bool { return now.Sub(at).Abs() >= longestLag })
	return slices.DeleteFunc(due, func(d rollout.Decision) bool {
		_, taken := s[*d.Pod]
		return taken
	})
}

// note remembers what came of evictions.
func (s sent) note(attempts []rollout.Attempt, now time.Time) {
	for _, a := range attempts {
		if a.Result == rollout.Sent {
			s[*a.Decision.Pod] = now
		}
	}
}
