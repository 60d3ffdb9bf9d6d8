// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"time"
)

// recently is what was tried and has come to nothing yet, and when. Passes may follow each
// other closely, and none tries it again within lookAgain: it may be a webhook that denies
// it, or a disruption budget of somebody else.
type recently[K comparable] map[K]time.Time

func (r recently[K]) note(k K, now time.Time) { r[k] = now }

// tried forgets what was tried longer ago, and says whether this was not.
func (r recently[K]) tried(k K, now time.Time) bool {
	maps.DeleteFunc(r, func(_ K, at time.Time) bool { return now.Sub(at).Abs() >= lookAgain })
	_, tried := r[k]
	return tried
}

// next is when the first of these may be tried again; zero if there is none.
func (r recently[K]) next(now time.Time) time.Time {
	var first time.Time
	for _, at := range r {
		first = earliest(now, first, at.Add(lookAgain))
	}
	return first
}
