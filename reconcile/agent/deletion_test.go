// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"
)

// While a pass waits for a finalizer, no node is visited.
func TestAPassWaitsForNoDeletionForLong(t *testing.T) {
	if got := (&Agent{}).clusterOptions().DeletionTimeout; got <= 0 || got > time.Second {
		t.Errorf("a pass waits %s for one object to be gone, want a second at most", got)
	}
}
