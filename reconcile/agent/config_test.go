// SPDX-License-Identifier: Apache-2.0

package agent

import "testing"

func TestEmptyPathIsTheRepositoryRoot(t *testing.T) {
	if got := withDefaults(Config{}).Path; got != "." {
		t.Errorf("path: got %q, want the root as render knows it", got)
	}
}
