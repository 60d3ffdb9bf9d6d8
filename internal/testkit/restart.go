// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// RestartAPIServer kills the API server of a cluster that the test has for itself,
// and returns when the next one is ready.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	if c.own == nil {
		t.Fatal("the API server is not this test's alone")
	}
	before, err := c.serverStarted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.own.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	Eventually(t, startTimeout, func(ctx context.Context) error {
		now, err := c.serverStarted(ctx)
		if err == nil && now == before {
			err = errors.New("the API server has not been restarted")
		}
		return err
	})
}

// serverStarted is the line of the API server's metrics that says when it started,
// once it is ready.
func (c *Cluster) serverStarted(ctx context.Context) (string, error) {
	api := c.Client.Discovery().RESTClient()
	if _, err := api.Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return "", err
	}
	metrics, err := api.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "process_start_time_seconds ") {
			return line, nil
		}
	}
	return "", errors.New("the API server does not say when it started")
}
