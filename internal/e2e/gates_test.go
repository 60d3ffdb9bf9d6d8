// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/rollout"
)

// door is a server that is open or shut.
type door struct {
	url   string
	open  atomic.Bool
	asked atomic.Int64
}

func newDoor(t *testing.T, answer func(open bool, w http.ResponseWriter)) *door {
	t.Helper()
	d := &door{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.asked.Add(1)
		answer(d.open.Load(), w)
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

// No node is visited until every gate is open, and status says which is not.
func TestGatesHoldARolloutUntilTheyOpen(t *testing.T) {
	t.Parallel()
	quiet := newDoor(t, func(open bool, w http.ResponseWriter) {
		if !open {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	errors := newDoor(t, func(open bool, w http.ResponseWriter) {
		value := "0.5"
		if open {
			value = "0"
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,%q]}]}}`, value)
	})
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "6", fields: `  gates:
  - {name: quiet, http: {url: "` + quiet.url + `/quiet"}}
  - {name: errors, prometheus: {url: "` + errors.url + `", query: sum(errors), comparison: "< 0.01"}}
  - {name: up, nodeCondition: {type: Ready}}
`}.yaml(w),
	}))
	w.settled(t, "1")
	if n := quiet.asked.Load(); n > 0 {
		t.Errorf("the gate was asked %d times though no node is to be visited", n)
	}

	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	w.allHeld(t, rollout.GateShut, "quiet: "+quiet.url[len("http://"):]+" answered 503, wanted 200")
	quiet.open.Store(true)
	w.allHeld(t, rollout.GateShut, "errors: the value is 0.5, wanted < 0.01")
	if given := w.orders(t); len(given) > 0 {
		t.Fatalf("pods were deleted while a gate was shut: %v", given)
	}
	errors.open.Store(true)
	w.settled(t, "2")
	w.onceEach(t)
	w.withinBudget(t, 6)
}

// allHeld waits until status shows all nodes held for a reason.
func (w *world) allHeld(t *testing.T, reason rollout.Reason, message string) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		for _, n := range s.Nodes {
			if n.Reason != string(reason) || n.Message != "gate "+message {
				return fmt.Errorf("node %s: %s (%s), want %s (gate %s)", n.Node, n.Reason, n.Message, reason, message)
			}
		}
		return held(s)
	})
}

func held(s show.Status) error {
	if len(s.Nodes) != nodes {
		return fmt.Errorf("%d nodes are shown, not %d", len(s.Nodes), nodes)
	}
	return nil
}
