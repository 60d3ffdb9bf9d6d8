// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lamplighter.dev/reconcile/agent/webhook"
)

const secret = "0123456789abcdef0123456789abcdef"

// receiver is a receiver behind a real HTTP server, and what it said.
type receiver struct {
	url string

	mu     sync.Mutex
	secret []byte
	err    error
	now    time.Time
	looks  int
	counts map[webhook.Result]int
	log    bytes.Buffer
}

// serve starts one. Its server may be changed before.
func serve(t testing.TB, change ...func(*http.Server)) *receiver {
	t.Helper()
	r := &receiver{secret: []byte(secret), now: time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC), counts: map[webhook.Result]int{}}
	handler, err := webhook.New(webhook.Options{
		Secret: func() ([]byte, error) { return locked(r, func() ([]byte, error) { return r.secret, r.err }) },
		Look:   func() { r.change(func() { r.looks++ }) },
		Count:  func(result webhook.Result) { r.change(func() { r.counts[result]++ }) },
		Now:    func() time.Time { now, _ := locked(r, func() (time.Time, error) { return r.now, nil }); return now },
		Log:    slog.New(slog.NewTextHandler(r, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = webhook.Server(handler)
	for _, c := range change {
		c(server.Config)
	}
	server.Start()
	t.Cleanup(server.Close)
	r.url = server.URL + webhook.Path
	return r
}

func locked[T any](r *receiver, f func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f()
}

func (r *receiver) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *receiver) Write(p []byte) (int, error) {
	return locked(r, func() (int, error) { return r.log.Write(p) })
}

func (r *receiver) looked() int {
	n, _ := locked(r, func() (int, error) { return r.looks, nil })
	return n
}

// answer is what a Git host gets.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *receiver) send(t testing.TB, method string, header http.Header, body []byte) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("the answer holds the secret: %s", text)
	}
	return answer{resp.StatusCode, resp.Header, strings.TrimSpace(string(text))}
}

func headers(pairs ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func sum(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// host is a Git host: what it sends for a push, signed with a secret.
type host struct {
	name, payload, signature string
	header                   func(secret string, body []byte) http.Header
}

var hosts = []host{
	{"github", "github.json", "X-Hub-Signature-256", func(secret string, body []byte) http.Header {
		old := hmac.New(sha1.New, []byte(secret))
		old.Write(body)
		return headers("X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958",
			"X-Hub-Signature", "sha1="+hex.EncodeToString(old.Sum(nil)), "X-Hub-Signature-256", "sha256="+sum(secret, body))
	}},
	{"gitlab", "gitlab.json", "X-Gitlab-Token", func(secret string, _ []byte) http.Header {
		return headers("X-Gitlab-Event", "Push Hook", "X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e",
			"Idempotency-Key", "f5e57b18-5f8e-4b41-8b3c-0e6f3a1f3b2d", "X-Gitlab-Token", secret)
	}},
	{"gitea", "gitea.json", "X-Gitea-Signature", func(secret string, body []byte) http.Header {
		s := sum(secret, body)
		return headers("X-Gitea-Event", "push", "X-Gitea-Delivery", "f6266f16-1bf3-46a5-9ea4-602e06ead473", "X-Gitea-Signature", s,
			"X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256="+s, "X-Gogs-Event", "push", "X-Gogs-Signature", s)
	}},
	{"bitbucket cloud", "bitbucket-cloud.json", "X-Hub-Signature", func(secret string, body []byte) http.Header {
		return headers("X-Event-Key", "repo:push", "X-Request-UUID", "a9d1d8a1-6f1b-4b6e-a9c4-2f6d8d7c4e11", "X-Hub-Signature", "sha256="+sum(secret, body))
	}},
	{"bitbucket data center", "bitbucket-datacenter.json", "X-Hub-Signature", func(secret string, body []byte) http.Header {
		return headers("X-Event-Key", "repo:refs_changed", "X-Request-Id", "61d0f2a9-5b1b-4c6e-8f0e-6a6f3bb0d2d7", "X-Hub-Signature", "sha256="+sum(secret, body))
	}},
	{"generic", "generic.json", "X-Signature", func(secret string, body []byte) http.Header {
		return headers("X-Signature", "sha256="+sum(secret, body))
	}},
}

func payload(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func eachHost(t *testing.T, test func(t *testing.T, r *receiver, h host, body []byte)) {
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) { test(t, serve(t), h, payload(t, h.payload)) })
	}
}

// ends wants a status, a result counted once more, and so many looks in all.
func (r *receiver) ends(t *testing.T, got answer, status int, result webhook.Result, looks int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got.status != status || got.body == "" {
		t.Errorf("answer %d %q, want %d", got.status, got.body, status)
	}
	if r.counts[result] == 0 {
		t.Errorf("counted %v, want %s", r.counts, result)
	}
	if r.looks != looks {
		t.Errorf("looked %d times, want %d", r.looks, looks)
	}
	if strings.Contains(r.log.String(), secret) {
		t.Errorf("the log holds the secret:\n%s", r.log.String())
	}
}
