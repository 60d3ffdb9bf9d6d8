// SPDX-License-Identifier: Apache-2.0

package render

import "testing"

// A secret that begins as another one does is hidden to its end.
func TestASecretInAnotherIsHiddenWithIt(t *testing.T) {
	for _, secrets := range [][]string{{"lamp", "lamp-s3cr3t"}, {"lamp-s3cr3t", "lamp"}} {
		if got, want := redact("cannot read lamp-s3cr3t, nor lamp", secrets), "cannot read ***, nor ***"; got != want {
			t.Errorf("%q: got %q, want %q", secrets, got, want)
		}
	}
}
