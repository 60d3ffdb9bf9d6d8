// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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

func serve(t testing.TB) *receiver {
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
	server.Config.ReadTimeout = 300 * time.Millisecond // nobody waits ten seconds here
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

func TestPushLeadsToOneLook(t *testing.T) {
	eachHost(t, func(t *testing.T, r *receiver, h host, body []byte) {
		r.ends(t, r.send(t, "POST", h.header(secret, body), body), http.StatusAccepted, webhook.Accepted, 1)
		r.ends(t, r.send(t, "POST", h.header(secret, body), body), http.StatusOK, webhook.Replayed, 1)
		r.change(func() { r.now = r.now.Add(5 * time.Minute) })
		r.ends(t, r.send(t, "POST", h.header(secret, body), body), http.StatusAccepted, webhook.Accepted, 2)
	})
}

// What a signature does not cover makes nothing new of an old payload.
func TestReplayWithAnotherDeliveryID(t *testing.T) {
	r := serve(t)
	h, body := hosts[0], payload(t, "github.json")
	r.send(t, "POST", h.header(secret, body), body)
	again := h.header(secret, body)
	again.Set("X-GitHub-Delivery", "00000000-cc78-11e3-81ab-4c9367dc0958")
	r.ends(t, r.send(t, "POST", again, body), http.StatusOK, webhook.Replayed, 1)
}

// GitLab's payload has no time in it: pushing, going back and pushing again
// makes the same one twice.
func TestGitLabSaysTheSameTwice(t *testing.T) {
	r := serve(t)
	h, body := hosts[1], payload(t, "gitlab.json")
	r.send(t, "POST", h.header(secret, body), body)
	again := h.header(secret, body)
	again.Set("Idempotency-Key", "another")
	r.ends(t, r.send(t, "POST", again, body), http.StatusAccepted, webhook.Accepted, 2)
}

func TestWrongSignatures(t *testing.T) {
	eachHost(t, func(t *testing.T, r *receiver, h host, body []byte) {
		right := h.header(secret, body).Get(h.signature)
		for name, signature := range map[string]string{
			"other secret": h.header("fedcba9876543210", body).Get(h.signature),
			"cut short":    right[:len(right)-1],
			"two short":    right[:len(right)-2],
			"half":         right[:len(right)/2],
			"too long":     right + "00",
			"empty":        "",
			"prefix only":  "sha256=",
			"not hex":      "sha256=zz",
			"no prefix":    strings.TrimPrefix(right, "sha256=") + "0",
			"SHA-1":        "sha1=" + strings.Repeat("0", 40),
			"a list":       right + "," + right,
			"upper prefix": "SHA256=" + strings.TrimPrefix(right, "sha256="),
		} {
			t.Run(name, func(t *testing.T) {
				header := h.header(secret, body)
				header.Set(h.signature, signature)
				r.ends(t, r.send(t, "POST", header, body), http.StatusForbidden, webhook.WrongSignature, 0)
			})
		}
		t.Run("twice", func(t *testing.T) {
			header := h.header(secret, body)
			header.Add(h.signature, right)
			r.ends(t, r.send(t, "POST", header, body), http.StatusForbidden, webhook.WrongSignature, 0)
		})
		t.Run("missing", func(t *testing.T) {
			header := h.header(secret, body)
			for _, f := range hosts {
				header.Del(f.signature)
			}
			r.ends(t, r.send(t, "POST", header, body), http.StatusBadRequest, webhook.Unknown, 0)
		})
		// A payload that was refused is not remembered: the right one is new.
		r.ends(t, r.send(t, "POST", h.header(secret, body), body), http.StatusAccepted, webhook.Accepted, 1)
	})
}

func TestChangedPayload(t *testing.T) {
	eachHost(t, func(t *testing.T, r *receiver, h host, body []byte) {
		if h.name == "gitlab" {
			return // its token covers no payload
		}
		for _, changed := range [][]byte{append([]byte(" "), body...), body[:len(body)-1], nil, []byte("{}")} {
			r.ends(t, r.send(t, "POST", h.header(secret, body), changed), http.StatusForbidden, webhook.WrongSignature, 0)
		}
	})
}

func TestPayloadMayBeEmptyOrAnything(t *testing.T) {
	r := serve(t)
	for i, body := range [][]byte{nil, {0}, []byte("payload=%7B%7D"), bytes.Repeat([]byte("x"), 1<<20)} {
		r.ends(t, r.send(t, "POST", hosts[0].header(secret, body), body), http.StatusAccepted, webhook.Accepted, i+1)
	}
}

func TestPing(t *testing.T) {
	r := serve(t)
	body := payload(t, "github-ping.json")
	header := hosts[0].header(secret, body)
	header.Set("X-GitHub-Event", "ping")
	r.ends(t, r.send(t, "POST", header, body), http.StatusOK, webhook.Ping, 0)
	header.Set("X-Hub-Signature-256", "sha256="+sum("fedcba9876543210", body))
	r.ends(t, r.send(t, "POST", header, body), http.StatusForbidden, webhook.WrongSignature, 0)

	unsigned := r.send(t, "POST", headers("X-Event-Key", "diagnostics:ping"), []byte(`{"test":true}`))
	r.ends(t, unsigned, http.StatusOK, webhook.Ping, 0)
	if !strings.Contains(unsigned.body, "the secret is not tested") {
		t.Errorf("answer %q", unsigned.body)
	}
}

func TestOtherEventsAreIgnored(t *testing.T) {
	for event, h := range map[string]host{"issues": hosts[0], "Note Hook": hosts[1], "release": hosts[2], "pullrequest:created": hosts[3]} {
		t.Run(event, func(t *testing.T) {
			r := serve(t)
			body := []byte(`{"action":"opened"}`)
			header := h.header(secret, body)
			for _, name := range []string{"X-GitHub-Event", "X-Gitlab-Event", "X-Gitea-Event", "X-Event-Key"} {
				if header.Get(name) != "" {
					header.Set(name, event)
				}
			}
			r.ends(t, r.send(t, "POST", header, body), http.StatusOK, webhook.Ignored, 0)
		})
	}
}

func TestOtherMethodsAndPaths(t *testing.T) {
	r := serve(t)
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		got := r.send(t, method, hosts[0].header(secret, nil), nil)
		r.ends(t, got, http.StatusMethodNotAllowed, webhook.WrongMethod, 0)
		if got.header.Get("Allow") != "POST" {
			t.Errorf("Allow: %q", got.header.Get("Allow"))
		}
	}
	r.url = strings.TrimSuffix(r.url, webhook.Path) + "/metrics"
	if got := r.send(t, "POST", hosts[0].header(secret, nil), nil); got.status != http.StatusNotFound || r.looked() > 0 {
		t.Errorf("another path: %+v", got)
	}
}

func TestStrangerIsToldWhatIsMissing(t *testing.T) {
	r := serve(t)
	for event, want := range map[string]string{"": "no webhook that we know", "push": "set the secret"} {
		header := headers()
		if event != "" {
			header.Set("X-GitHub-Event", event)
		}
		got := r.send(t, "POST", header, []byte("{}"))
		r.ends(t, got, http.StatusBadRequest, webhook.Unknown, 0)
		if !strings.Contains(got.body, want) {
			t.Errorf("answer %q, want %q", got.body, want)
		}
	}
}

func TestPayloadThatIsTooLarge(t *testing.T) {
	eachHost(t, func(t *testing.T, r *receiver, h host, _ []byte) {
		large := bytes.Repeat([]byte("x"), 1<<20+1)
		r.ends(t, r.send(t, "POST", h.header(secret, large), large), http.StatusRequestEntityTooLarge, webhook.TooLarge, 0)

		// Without a length beforehand.
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url, io.MultiReader(bytes.NewReader(large)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h.header(secret, large)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || r.looked() > 0 {
			t.Errorf("status %d, looked %d times", resp.StatusCode, r.looked())
		}
	})
}

// raw writes a request by hand and returns the first line of the answer.
func (r *receiver) raw(t *testing.T, body string, length int, hangUp bool) string {
	t.Helper()
	address, _, _ := strings.Cut(strings.TrimPrefix(r.url, "http://"), "/")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\n\r\n%s",
		webhook.Path, sum(secret, []byte(body)), length, body)
	if hangUp {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(got), "\r\n")
	return line
}

// The signature of the part that arrived is right, which must not help.
func TestPayloadThatEndsEarly(t *testing.T) {
	r := serve(t)
	if got := r.raw(t, `{"ref":`, 100, true); got != "HTTP/1.1 400 Bad Request" || r.looked() > 0 {
		t.Errorf("answer %q, looked %d times", got, r.looked())
	}
}

func TestPayloadThatIsSlow(t *testing.T) {
	r := serve(t)
	if got := r.raw(t, `{"ref":`, 100, false); got != "HTTP/1.1 408 Request Timeout" || r.looked() > 0 {
		t.Errorf("answer %q, looked %d times", got, r.looked())
	}
	body := payload(t, "github.json")
	r.ends(t, r.send(t, "POST", hosts[0].header(secret, body), body), http.StatusAccepted, webhook.Accepted, 1)
}

func TestTooManyRequests(t *testing.T) {
	r := serve(t)
	push := func(i int) answer {
		body := fmt.Appendf(nil, `{"number":%d}`, i)
		return r.send(t, "POST", hosts[0].header(secret, body), body)
	}
	for i := range 50 {
		r.ends(t, push(i), http.StatusAccepted, webhook.Accepted, i+1)
	}
	refused := push(50)
	r.ends(t, refused, http.StatusTooManyRequests, webhook.TooMany, 50)
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	r.change(func() { r.now = r.now.Add(time.Second) })
	r.ends(t, push(50), http.StatusAccepted, webhook.Accepted, 51)
}

func TestSecretIsReadAgain(t *testing.T) {
	r := serve(t)
	body := payload(t, "github.json")
	const next = "another secret, as long"
	r.change(func() { r.secret = []byte(next) })
	r.ends(t, r.send(t, "POST", hosts[0].header(secret, body), body), http.StatusForbidden, webhook.WrongSignature, 0)
	r.ends(t, r.send(t, "POST", hosts[0].header(next, body), body), http.StatusAccepted, webhook.Accepted, 1)

	r.change(func() { r.err = errors.New("token: no such file") })
	body = []byte("{}")
	r.ends(t, r.send(t, "POST", hosts[0].header(next, body), body), http.StatusServiceUnavailable, webhook.NoSecret, 1)
	r.change(func() { r.secret, r.err = nil, nil })
	r.ends(t, r.send(t, "POST", hosts[0].header("", body), body), http.StatusServiceUnavailable, webhook.NoSecret, 1)
	if log, _ := locked(r, func() (string, error) { return r.log.String(), nil }); !strings.Contains(log, "token: no such file") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

func TestReceiverWithoutASecretDoesNotStart(t *testing.T) {
	for name, tt := range map[string]struct {
		secret string
		err    error
		want   string
	}{
		"unreadable": {"", os.ErrNotExist, "webhook secret: file does not exist"},
		"empty":      {"", nil, "0 characters can be guessed"},
		"short":      {"hunter2", nil, "7 characters can be guessed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := webhook.New(webhook.Options{Secret: func() ([]byte, error) { return []byte(tt.secret), tt.err }})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

// Refusals come from anybody, so they do not fill the log.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	r := serve(t)
	for range 40 {
		r.send(t, "POST", headers("X-Signature", "sha256=00"), []byte("{}"))
	}
	log, _ := locked(r, func() (string, error) { return r.log.String(), nil })
	if n := strings.Count(log, "wrong_signature"); n < 1 || n > 10 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

func TestPushesAtOnce(t *testing.T) {
	r := serve(t)
	body := payload(t, "github.json")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { r.send(t, "POST", hosts[0].header(secret, body), body) })
	}
	wg.Wait()
	if r.looked() != 1 {
		t.Errorf("looked %d times for one push", r.looked())
	}
}

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
