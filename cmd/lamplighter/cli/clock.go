// SPDX-License-Identifier: Apache-2.0

package cli

import "time"

// now is the one look at the clock of a one-shot command.
func now() time.Time { return time.Now() }
