// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// A number of nodes, and a percentage, which is rounded up as a DaemonSet does.
func TestOutageStaysWithinMaxUnavailable(t *testing.T) {
	t.Parallel()
	for maxUnavailable, want := range map[string]int{"3": 3, "30%": 4} {
		t.Run(maxUnavailable, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(t)
			files := func(version string) map[string]string {
				return w.fleet(map[string]string{
					"agent.yaml": daemonSet(version, "slow-2s"),
					"rules.yaml": rules{maxUnavailable: maxUnavailable}.yaml(w),
				})
			}
			w.commit(t, "version 1", files("1"))
			w.settled(t, "1")
			w.commit(t, "version 2", files("2"))
			w.settled(t, "2")
			w.onceEach(t)
			// What is evicted in one pass is down together for the two seconds that a
			// pod needs, so a budget that is not used shows too.
			if worst := w.pods.WorstOutage(t, "agent"); len(worst.Nodes) != want {
				t.Errorf("at worst %d nodes were out of service: %v; want %d", len(worst.Nodes), worst.Nodes, want)
			}
		})
	}
}
