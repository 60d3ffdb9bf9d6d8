// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"lamplighter.dev/render/gitsource"
)

const (
	// A remote that fails is asked half as often each time, but at least this
	// often, so that one that is back is soon noticed.
	longestPause = 5 * time.Minute
	// longestRetryAfter bounds what a server may ask for.
	longestRetryAfter = time.Hour
)

// pause is how long to leave the remote alone after it failed this many times
// in a row, last with err. A server that names a time gets it.
func pause(interval time.Duration, failures int, err error) time.Duration {
	wait := interval
	for range failures - 1 {
		if wait >= longestPause {
			break
		}
		wait = min(2*wait, longestPause)
	}
	return max(wait, min(gitsource.RetryAfter(err), longestRetryAfter))
}
