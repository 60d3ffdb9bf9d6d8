// SPDX-License-Identifier: Apache-2.0

// Package e2e proves what Lamplighter promises on the real things: the real
// agent, a real API server with simulated nodes, and a real Git server.
//
// Every test has an instance, a repository and a namespace of its own, so that
// tests run side by side and in any order. None waits for a length of time to
// pass: what must happen is waited for, and what must not is read off a record
// of everything that did.
package e2e

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"lamplighter.dev/internal/testkit"
)

// nodes is the size of the sandbox.
const nodes = 12

// patience bounds the wait for what takes seconds on a machine that is not busy.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	code := testkit.Main(m, testkit.Options{Nodes: nodes, PodReadyAfter: 100 * time.Millisecond})
	program.remove()
	os.Exit(code)
}
