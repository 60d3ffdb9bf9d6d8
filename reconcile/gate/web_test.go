// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lamplighter.dev/reconcile/gate"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

func httpGate(url string) rollout.Question {
	return rollout.Question{Kind: rollout.HTTPGate, HTTP: policy.HTTPGate{URL: url, ExpectedStatus: 200}}
}

// serve answers every request with a handler.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func wantAnswer(t *testing.T, got rollout.Answer, reply rollout.Reply, words string) {
	t.Helper()
	if got.Reply != reply || !strings.Contains(got.Message, words) {
		t.Errorf("got %+v, want %s with %q", got, reply, words)
	}
}

func TestHTTPGateComparesTheStatus(t *testing.T) {
	status := http.StatusServiceUnavailable
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("method: got %s", r.Method)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, strings.Repeat("a very long page ", 1<<17))
	})
	web := gate.NewWeb()
	wantAnswer(t, web.HTTP(t.Context(), httpGate(url)), rollout.No, "answered 503, wanted 200")
	status = http.StatusOK
	wantAnswer(t, web.HTTP(t.Context(), httpGate(url)), rollout.Yes, "")
}

func TestHTTPGateStaysOnItsHost(t *testing.T) {
	asked := false
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		}
	})
	web := gate.NewWeb()
	wantAnswer(t, web.HTTP(t.Context(), httpGate(url+"/away")), rollout.No, "answered 302")
	if asked {
		t.Error("a host was asked that nobody has named")
	}
	wantAnswer(t, web.HTTP(t.Context(), httpGate(url+"/here")), rollout.Yes, "")
	wantAnswer(t, web.HTTP(t.Context(), httpGate(url+"/round")), rollout.No, "answered 302")
}

func TestGateThatCannotBeReached(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	web := gate.NewWeb()
	for _, got := range []rollout.Answer{
		web.HTTP(t.Context(), httpGate(s.URL+"/?token=hunter2")),
		web.Prometheus(t.Context(), promGate(s.URL)),
	} {
		wantAnswer(t, got, rollout.Unknown, "connection refused")
		if strings.Contains(got.Message, "hunter2") {
			t.Errorf("the message holds the query: %s", got.Message)
		}
	}
}

func TestGateThatDoesNotAnswerInTime(t *testing.T) {
	over := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer within 10s"))
	wantAnswer(t, gate.NewWeb().HTTP(ctx, httpGate(url)), rollout.Unknown, "no answer within 10s")
}

func promGate(url string) rollout.Question {
	return rollout.Question{Kind: rollout.PrometheusGate, Prometheus: policy.PrometheusGate{
		URL: url, Query: "errors", Comparison: policy.Comparison{Operator: "<", Threshold: 0.01},
	}}
}

func TestPrometheusGate(t *testing.T) {
	vector := func(values ...string) string {
		var samples []string
		for i, v := range values {
			samples = append(samples, fmt.Sprintf(`{"metric":{"pod":"%d"},"value":[1700000000,%q]}`, i, v))
		}
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(samples, ",") + `]}}`
	}
	for name, tc := range map[string]struct {
		status int
		body   string
		reply  rollout.Reply
		words  string
	}{
		"every value compares": {200, vector("0.001", "0"), rollout.Yes, ""},
		"one does not":         {200, vector("0.001", "0.5"), rollout.No, "the value is 0.5, wanted < 0.01"},
		"not a number":         {200, vector("NaN"), rollout.No, "the value is NaN"},
		"no result":            {200, vector(), rollout.No, "no result"},
		"a scalar":             {200, `{"status":"success","data":{"resultType":"scalar","result":[1700000000,"0"]}}`, rollout.Yes, ""},
		"a range":              {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, rollout.Unknown, "the result is a matrix"},
		"a text":               {200, `{"status":"success","data":{"resultType":"string","result":[1700000000,"0"]}}`, rollout.Unknown, "string"},
		"a warning":            {200, `{"status":"success","warnings":["store away"],"data":{"resultType":"scalar","result":[1700000000,"0"]}}`, rollout.Unknown, "store away"},
		"a bad query":          {400, `{"status":"error","errorType":"bad_data","error":"parse\nerror"}`, rollout.Unknown, "bad_data: parse error"},
		"no permission":        {403, `who are you`, rollout.Unknown, "403"},
		"not JSON":             {200, `<html>`, rollout.Unknown, ""},
		"nothing":              {200, ``, rollout.Unknown, ""},
		"without end":          {200, `{"status":"success","data":"` + strings.Repeat("x", 2<<20), rollout.Unknown, "longer than"},
		"away":                 {302, ``, rollout.Unknown, ""},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil || r.URL.Path != "/prom/api/v1/query" || r.Form.Get("query") != "errors" {
				t.Errorf("%s: asked %s %v (%v)", name, r.URL, r.Form, err)
			}
			if tc.status == http.StatusFound {
				w.Header().Set("Location", "http://192.0.2.1/")
			}
			w.WriteHeader(tc.status)
			fmt.Fprint(w, tc.body)
		})
		got := gate.NewWeb().Prometheus(t.Context(), promGate(url+"/prom"))
		if got.Reply != tc.reply || !strings.Contains(got.Message, tc.words) || (got.Reply == rollout.Yes) != (got.Message == "") || strings.Contains(got.Message, "\n") {
			t.Errorf("%s: got %+v, want %s with %q", name, got, tc.reply, tc.words)
		}
	}
}
