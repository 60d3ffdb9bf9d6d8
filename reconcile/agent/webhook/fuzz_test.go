// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/reconcile/agent/webhook"
)

// FuzzReceiver looks for a request that leads to a look without the secret, or
// that brings the receiver down.
func FuzzReceiver(f *testing.F) {
	for _, h := range hosts {
		body := payload(f, h.payload)
		f.Add(h.signature, h.header("fedcba9876543210", body).Get(h.signature), "push", body)
	}
	f.Add("X-Hub-Signature-256", "sha256=", "ping", []byte{})
	f.Add("X-Gitlab-Token", "", "Push Hook", []byte("{}"))
	f.Fuzz(func(t *testing.T, name, signature, event string, body []byte) {
		looks := 0
		var got webhook.Result
		r, err := webhook.New(webhook.Options{
			Secret: func() ([]byte, error) { return []byte(secret), nil },
			Look:   func() { looks++ },
			Count:  func(r webhook.Result) { got = r },
			Now:    func() time.Time { return time.Unix(0, 0) },
		})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(context.Background(), "POST", webhook.Path, bytes.NewReader(body))
		req.Header[http.CanonicalHeaderKey(name)] = []string{signature}
		for _, e := range []string{"X-GitHub-Event", "X-Gitlab-Event", "X-Gitea-Event", "X-Event-Key"} {
			req.Header.Set(e, event)
		}
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, req)
		if looks > 0 && signature != secret && !strings.HasSuffix(strings.ToLower(signature), sum(secret, body)) {
			t.Errorf("looked for %s: %q", name, signature)
		}
		if answer.Code/100 == 2 && looks == 0 && got != webhook.Ping && got != webhook.Ignored {
			t.Errorf("status %d for %s", answer.Code, got)
		}
	})
}
