// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// The Lease is no proof: a process that was stopped for a while, or a machine
// whose clock ran slow, goes on in the belief that it leads. The record tells it
// better, as soon as the next one has begun.
func TestLeaderThatBelievesInItsLeaseIsStoppedByTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml":  daemonSet(version, "slow-500ms"),
			"logger.yaml": logger(version, "v1"),
			"rules.yaml":  rules{maxUnavailable: "3", logger: true}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	cut, byFirst := &deluded{}, &requests{}
	first := w.start(t, named("first"), cut.be, byFirst.of)
	w.runsOn(t, nodes, "1", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)

	begun := w.next(t, podDeleted)
	w.commit(t, "version 2", files("2"))
	begun()
	cut.off()
	w.dropLease(t)
	w.start(t, named("second"))
	testkit.Eventually(t, patience, func(context.Context) error {
		if len(first.log.lines("another process leads: second")) == 0 {
			return fmt.Errorf("the first does not know that it no longer leads")
		}
		return nil
	})
	cut.bar() // it would believe again in a while, or find that the second was slow to renew
	sent := len(byFirst.all())
	w.runsOn(t, nodes, "2", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)

	w.holder(t, "second")
	if more := byFirst.all()[sent:]; len(more) > 0 {
		t.Errorf("the first has sent since: %v", more)
	}
	w.onceOn(t, nodes, "agent", "logger")
	w.withinBudget(t, 3, "agent", "logger")
	if got := visited(w.stateNow(t).Ledger); len(got) != nodes || len(slices.Compact(got)) != nodes {
		t.Errorf("finished visits: got %+v, want one for each node", w.stateNow(t).Ledger.Finished)
	}
}

// deluded is an agent that is told, once it is cut off, that the Lease is as it
// left it. Once it is barred it is told the truth, and cannot have the Lease.
type deluded struct {
	mu     sync.Mutex
	isOff  bool
	barred bool
	lease  []byte // as the agent knows it
	kind   string // the content type
}

func (d *deluded) off() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isOff = true
}

func (d *deluded) bar() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isOff, d.barred = false, true
}

func (d *deluded) be(cfg *agent.Config) {
	cfg.Cluster = rest.CopyConfig(cfg.Cluster)
	cfg.Cluster.Wrap(func(next http.RoundTripper) http.RoundTripper { return deludedTrip{d, next} })
}

type deludedTrip struct {
	*deluded
	next http.RoundTripper
}

func (d deludedTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.Contains(req.URL.Path, "/leases") {
		return d.next.RoundTrip(req)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isOff {
		return d.pretend(req)
	}
	if d.barred && req.Method != http.MethodGet {
		return nil, errors.New("the Lease is not for this one")
	}
	resp, err := d.next.RoundTrip(req)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		return resp, err
	}
	if d.lease, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	d.kind = resp.Header.Get("Content-Type")
	resp.Body = io.NopCloser(strings.NewReader(string(d.lease)))
	return resp, nil
}

// pretend takes what is written for what is there.
func (d *deluded) pretend(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPut {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		d.lease, d.kind = body, req.Header.Get("Content-Type")
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {d.kind}},
		Body:    io.NopCloser(strings.NewReader(string(d.lease))),
		Request: req,
	}, nil
}

// A connection that breaks off half-way leaves pods on their way out, and pods
// that come back meanwhile.
func TestOutageHalfWayLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := newLine(t, strings.TrimPrefix(w.Config.Host, "https://"))
	line.connect()
	w.start(t, func(cfg *agent.Config) {
		cfg.Cluster = rest.CopyConfig(w.Config)
		cfg.Cluster.Host = "https://" + line.addr()
	})
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml":  daemonSet(version, "slow-500ms"),
			"logger.yaml": logger(version, "v1"),
			"rules.yaml":  rules{maxUnavailable: "3", logger: true}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	w.runsOn(t, nodes, "1", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)

	w.commit(t, "version 2", files("2"))
	for _, after := range []int{1, 8, 15} {
		testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, after) })
		line.cut()
		refused := line.refused()
		testkit.Eventually(t, patience, func(context.Context) error {
			if n := line.refused() - refused; n < 5 {
				return fmt.Errorf("the agent has tried %d times to reach the API server", n)
			}
			return nil
		})
		line.connect()
	}
	w.runsOn(t, nodes, "2", "agent", "logger")
	testkit.Eventually(t, patience, w.idle)
	w.onceOn(t, nodes, "agent", "logger")
	w.withinBudget(t, 3, "agent", "logger")
}
