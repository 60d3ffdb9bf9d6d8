// SPDX-License-Identifier: Apache-2.0

// Package testkit gives tests the real things: a Kubernetes cluster, a Git
// server, a record of every pod's life. It is for tests only and never fakes,
// skips or sleeps: what cannot start fails the test that needs it.
//
// A package that needs a cluster says so once,
//
//	func TestMain(m *testing.M) { os.Exit(testkit.Main(m, testkit.Options{})) }
//
// and its tests then share one, started by the first that asks:
//
//	cluster := testkit.Sandbox(t)
//	namespace := cluster.Namespace(t)
package testkit

import (
	"context"
	"testing"
	"time"
)

// pollInterval is how often Eventually looks again.
const pollInterval = 50 * time.Millisecond

// Eventually runs cond until it returns nil, and fails the test with cond's
// last error when that takes longer than timeout. The context ends with the
// timeout or the test.
func Eventually(t testing.TB, timeout time.Duration, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := cond(ctx)
	for last != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", timeout, last)
		case <-tick.C:
		}
		// What the end of ctx cut short says nothing about the condition.
		if err := cond(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
	}
}
