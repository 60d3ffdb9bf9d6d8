// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lamplighter.dev/reconcile/agent/webhook"
)

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
	r := serve(t, func(s *http.Server) { s.ReadTimeout = 300 * time.Millisecond }) // nobody waits ten seconds here
	if got := r.raw(t, `{"ref":`, 100, false); got != "HTTP/1.1 408 Request Timeout" || r.looked() > 0 {
		t.Errorf("answer %q, looked %d times", got, r.looked())
	}
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
