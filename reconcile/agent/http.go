// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveHTTP answers /healthz, /readyz and /metrics until ctx is done.
func (a *Agent) serveHTTP(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{Registry: prometheus.NewRegistry()}))
	return serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, ln)
}

func serve(ctx context.Context, srv *http.Server, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace) // nothing is lost with a request that is cut off
	})
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// readyz is ready while the process can do its part: waiting for the Lease as
// a standby, or leading with its caches filled.
func (a *Agent) readyz(w http.ResponseWriter, _ *http.Request) {
	phase := a.phase.Load().(phase)
	if phase == starting {
		http.Error(w, string(phase), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, phase)
}
