// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"lamplighter.dev/render/gitsource"
)

const (
	// A remote that fails is asked half as often each time, but at least this
	// often and every ten intervals, so that one that is back is soon noticed.
	longestPause     = 5 * time.Minute
	longestIntervals = 10
	// longestRetryAfter bounds what a server may ask for.
	longestRetryAfter = time.Hour
)

// pause is how long to leave the remote alone after it failed this many times
// in a row.
func pause(interval time.Duration, failures int) time.Duration {
	longest := max(interval, min(longestPause, longestIntervals*interval))
	wait := interval
	for range failures - 1 {
		if wait >= longest {
			break
		}
		wait = min(2*wait, longest)
	}
	return wait
}

// askedRest is how long the server that caused err asks to be left alone, whoever
// pushes meanwhile.
func askedRest(err error) time.Duration {
	return min(gitsource.RetryAfter(err), longestRetryAfter)
}

// sleep blocks for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
