// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
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
	// longestAsked is the longest wait within a pass that the API server may ask for.
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
		asked := askedFor(err)
		if asked > longestAsked {
			return err // whoever decides keeps it in mind: a pass goes on meanwhile
		}
		wait = max(wait, asked)
		jitter := rand.N(wait/4 + 1)
		if pause(ctx, wait+jitter) != nil {
			return err
		}
		wait = min(longest, 2*wait)
	}
}

// busyError is an answer that asks for more time than the request has. Nobody would
// wait for as long: the request would be sent again too early.
type busyError struct{ after time.Duration }

func (e busyError) Error() string {
	return fmt.Sprintf("the API server has too much to do and asks to be left alone for %s", e.after)
}

// askedFor is how long the API server wants to be left alone; zero if it does not
// say.
func askedFor(err error) time.Duration {
	if busy, ok := errors.AsType[busyError](err); ok {
		return busy.after
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(seconds) * time.Second
	}
	return 0
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
	if _, busy := errors.AsType[busyError](err); busy {
		return true
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, context.DeadlineExceeded) ||
		utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}
