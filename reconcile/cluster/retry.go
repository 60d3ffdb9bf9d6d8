// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A request is tried this often in all, with waits that double from the first.
const (
	tries     = 5
	firstWait = 100 * time.Millisecond
	longest   = 5 * time.Second
	// longestAsked is how long a wait that the API server asks for may be.
	longestAsked = 30 * time.Second
)

// try sends a request until it is answered, within bounds. What is repeated has
// to be idempotent.
func (c *Cluster) try(ctx context.Context, request func(context.Context) error) error {
	wait := firstWait
	for n := 1; ; n++ {
		err := c.once(ctx, request)
		if err == nil || n == tries || ctx.Err() != nil || !transient(err) {
			return err
		}
		if asked, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, min(longestAsked, time.Duration(asked)*time.Second))
		}
		jitter := rand.N(wait/4 + 1)
		if pause(ctx, wait+jitter) != nil {
			return err
		}
		wait = min(longest, 2*wait)
	}
}

// once sends a request with a bound on its time.
func (c *Cluster) once(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	return request(ctx)
}

// pause waits, or returns early with the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// transient reports whether the same request may succeed a little later: the
// API server is overloaded or going away, or the connection broke.
func transient(err error) bool {
	if status, ok := statusOf(err); ok {
		if notTyped(status) || oldVersion(status) {
			return false
		}
		switch code := status.Code; {
		case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
			return true
		}
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, context.DeadlineExceeded) ||
		utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}
