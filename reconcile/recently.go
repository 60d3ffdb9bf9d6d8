// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"time"
)

// recently is what was tried and has come to nothing yet. Passes may follow each other
// closely, and none tries it again within lookAgain: it may be a webhook that denies it,
// or a disruption budget of somebody else.
type recently[K comparable] struct {
	at    map[K]time.Time
	again time.Duration // after which a pass is due, at least lookAgain
}

func newRecently[K comparable](again time.Duration) recently[K] {
	return recently[K]{map[K]time.Time{}, again}
}

func (r recently[K]) note(k K, now time.Time) { r.at[k] = now }

func (r recently[K]) tried(k K, now time.Time) bool {
	at, tried := r.at[k]
	return tried && now.Sub(at).Abs() < lookAgain
}

// next is when the next pass is due because of these; zero if there is none. What is due
// is forgotten.
func (r recently[K]) next(now time.Time) time.Time {
	var first time.Time
	maps.DeleteFunc(r.at, func(_ K, at time.Time) bool { return now.Sub(at).Abs() >= r.again })
	for _, at := range r.at {
		first = earliest(now, first, at.Add(r.again))
	}
	return first
}
