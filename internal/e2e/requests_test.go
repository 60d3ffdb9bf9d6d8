// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"lamplighter.dev/reconcile/agent"
)

// requests are what an agent sends to the API server, its Lease aside.
type requests struct {
	mu   sync.Mutex
	sent []string
}

// of makes an agent's requests go through.
func (r *requests) of(cfg *agent.Config) {
	cfg.Cluster = rest.CopyConfig(cfg.Cluster)
	cfg.Cluster.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{r, next} })
}

type counting struct {
	*requests
	next http.RoundTripper
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.Contains(req.URL.Path, "/leases/") && !strings.HasSuffix(req.URL.Path, "/leases") {
		c.mu.Lock()
		c.sent = append(c.sent, req.Method+" "+req.URL.RequestURI())
		c.mu.Unlock()
	}
	return c.next.RoundTrip(req)
}

// all are those so far, dry runs among them.
func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}
