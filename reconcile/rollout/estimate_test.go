// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

func TestVisitLengthIsWhatTheWindowsAreHeldAgainst(t *testing.T) {
	const visits = "daemonset cni new\nnode a cni=old\nmeasured cni 3 1m\nmeasured cni 2 7m\n"
	for name, test := range map[string]struct {
		scene string
		want  time.Duration
	}{
		"what most took": {"policy cni cni\n" + visits, 7 * time.Minute},
		"what half of them did, where that fits into nothing": {"window w 2026-03-03T22:00:00Z 2026-03-03T22:04:00Z\npolicy cni cni windows=w\n" + visits, time.Minute},
		"nor where it fits for some nodes":                    {"window w 2026-03-03T22:00:00Z 2026-03-03T22:30:00Z pool=gpu\npolicy cni cni windows=w\n" + visits, 7 * time.Minute},
		"but not when nothing opens any more":                 {"window w 2026-03-01T22:00:00Z 2026-03-01T22:04:00Z\npolicy cni cni windows=w\n" + visits, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := readScene(t, test.scene)
			if got := VisitLength(s.policies[0], s.observed.Ledger, s.now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
