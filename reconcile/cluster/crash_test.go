// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// errCrash is what the n-th write and all after it end with.
var errCrash = errors.New("the process died here")

// crashAt lets n writes through and ends the process with the one after that,
// which reaches the API server if its answer is to be lost.
func crashAt(n int64, answerLost bool, next http.RoundTripper, end context.CancelCauseFunc) func(*http.Request) (*http.Response, error) {
	var count atomic.Int64
	return func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") {
			return nil, nil
		}
		sent := count.Add(1)
		if sent <= n {
			return nil, nil
		}
		defer end(errCrash)
		if sent == n+1 && answerLost {
			response, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			return nil, errors.Join(errCrash, response.Body.Close())
		}
		return nil, errCrash
	}
}

// Wherever a process dies, the next one finishes what it began: the cluster is
// as Git says, and nothing that was made is forgotten.
func TestCrashAtAnyWrite(t *testing.T) {
	for _, answerLost := range []bool{false, true} {
		for n := int64(0); ; n++ {
			if done := crashOnce(t, n, answerLost); done || t.Failed() {
				break
			}
		}
	}
}

// crashOnce reports whether the pass ended before the n-th write.
func crashOnce(t *testing.T, n int64, answerLost bool) (done bool) {
	name := fmt.Sprintf("before write %d", n)
	if answerLost {
		name = fmt.Sprintf("after write %d", n)
	}
	t.Run(name, func(t *testing.T) {
		w := newWorld(t, cluster.Options{})
		first := []*unstructured.Unstructured{w.configMap(t, "kept", "1"), w.configMap(t, "changed", "1"), w.configMap(t, "dropped", "1"), w.fixed(t, "1")}
		second := []*unstructured.Unstructured{w.configMap(t, "kept", "1"), w.configMap(t, "changed", "2"), w.configMap(t, "added", "1"), w.fixed(t, "2")}
		w.pass(t, first...)
		w.cluster = w.newCluster(t, cluster.Options{InFlight: 1})

		plan := w.plan(t, second...)
		w.owned = plan.Next // recorded before anything is done
		ctx, end := context.WithCancelCause(t.Context())
		w.requests.intercept(crashAt(n, answerLost, w.direct(t), end))
		outcomes := append(w.cluster.Apply(ctx, plan.Steps, nil), w.cluster.Prune(ctx, plan.Prunes, nil)...)
		end(nil)
		w.requests.intercept(nil)
		done = true
		for _, o := range outcomes {
			done = done && o.Err == nil
		}

		w.cluster = w.newCluster(t, cluster.Options{}) // the outcomes died with the process
		w.wantTracked(t)
		w.converge(t, second)
		w.wantGone(t, "dropped")
		if got := w.value(t, "changed"); got != "2" {
			t.Errorf("changed: got %q, want 2", got)
		}
		if got := w.value(t, "fixed"); got != "2" {
			t.Errorf("fixed: got %q, want 2", got)
		}
		if got, want := w.owned, inventory.NewSet(inventory.IDOf(second[0]), inventory.IDOf(second[1]), inventory.IDOf(second[2]), inventory.IDOf(second[3])); !got.Equal(want) {
			t.Errorf("inventory: got %v, want %v", got.IDs(), want.IDs())
		}
	})
	return done
}

// fixed is a ConfigMap that has to be re-created when its value changes.
func (w *world) fixed(t *testing.T, value string) *unstructured.Unstructured {
	t.Helper()
	obj := w.configMap(t, "fixed", value)
	obj.Object["immutable"] = true
	obj.SetAnnotations(map[string]string{inventory.RecreateAnnotation: "true"})
	return obj
}

// wantTracked checks that every object with our mark is in the inventory.
func (w *world) wantTracked(t *testing.T) {
	t.Helper()
	list, err := w.Dynamic.Resource(configMaps).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: inventory.InstanceLabel})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if id := inventory.IDOf(&list.Items[i]); !w.owned.Contains(id) {
			t.Errorf("%s is ours and not in the inventory", inventory.Format(id))
		}
	}
}

// converge runs passes until one finds nothing to do.
func (w *world) converge(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		plan, outcomes := w.pass(t, objects...)
		for _, o := range outcomes {
			if o.Err != nil {
				return o.Err
			}
		}
		if plan.Touches() {
			return errors.New("a pass still found something to do")
		}
		return nil
	})
}

// direct is a connection that nothing intercepts.
func (w *world) direct(t *testing.T) http.RoundTripper {
	t.Helper()
	transport, err := rest.TransportFor(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func TestPassingTroubleIsRiddenOut(t *testing.T) {
	for name, trouble := range map[string]func(*http.Request) (*http.Response, error){
		"too many requests":  answer(http.StatusTooManyRequests, "TooManyRequests"),
		"server error":       answer(http.StatusInternalServerError, "InternalError"),
		"unavailable":        answer(http.StatusServiceUnavailable, "ServiceUnavailable"),
		"connection refused": func(*http.Request) (*http.Response, error) { return nil, errRefused },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			plan := w.plan(t, w.configMap(t, "a", "1"))
			var count atomic.Int64
			w.requests.intercept(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch && count.Add(1) <= 2 {
					return trouble(r)
				}
				return nil, nil
			})
			w.wantOutcomes(t, w.cluster.Apply(t.Context(), plan.Steps, nil), "Created ConfigMap/a")
		})
	}
}

func TestLastingTroubleFailsWithinBounds(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	plan := w.plan(t, w.configMap(t, "a", "1"))
	w.requests.intercept(answer(http.StatusServiceUnavailable, "ServiceUnavailable"))
	start := time.Now()
	w.wantOutcomes(t, w.cluster.Apply(t.Context(), plan.Steps, nil), "Failed ConfigMap/a: out of order")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("gave up after %s", took)
	}
}

// errRefused is what a client sees while the API server restarts.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// answer is a transport that answers with a status.
func answer(code int, reason string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"out of order","reason":%q,"code":%d}`, reason, code)
		return &http.Response{
			StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}
