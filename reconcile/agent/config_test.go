// SPDX-License-Identifier: Apache-2.0

package agent

import "testing"

func TestEmptyPathIsTheRepositoryRoot(t *testing.T) {
	if got := withDefaults(Config{}).Path; got != "." {
		t.Errorf("path: got %q, want the root as render knows it", got)
	}
}

// Without a clock the cluster remembers no answer that counts for a while, and
// every pass asks again.
func TestClusterHasTheAgentsClock(t *testing.T) {
	a := Agent{cfg: withDefaults(Config{})}
	if a.clusterOptions().Now == nil {
		t.Error("the cluster has no clock")
	}
}
