// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lamplighter.dev/render/gitsource"
)

func TestPauseAfterFailures(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval time.Duration
		failures int
		want     time.Duration
	}{
		{"none", time.Minute, 0, time.Minute},
		{"first", time.Minute, 1, time.Minute},
		{"second", time.Minute, 2, 2 * time.Minute},
		{"third", time.Minute, 3, 4 * time.Minute},
		{"many", time.Minute, 1 << 40, 5 * time.Minute},
		{"frequent polls stay frequent", time.Second, 99, 10 * time.Second},
		{"rare polls stay as rare as they are", time.Hour, 9, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := pause(test.interval, test.failures); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestServerThatAsksForRestGetsIt(t *testing.T) {
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "31536000": time.Hour, "tomorrow": 0} {
		if got := askedRest(tooMany(t, header)); got != want {
			t.Errorf("Retry-After %s: got %s, want %s", header, got, want)
		}
	}
	if got := askedRest(errors.New("no such host")); got != 0 {
		t.Errorf("got %s without a word of the server", got)
	}
}

// limited is a source whose server wants to be left alone after each question.
type limited struct {
	err   error
	asked atomic.Int64
}

func (l *limited) Fetch(context.Context) (gitsource.Commit, error) {
	l.asked.Add(1)
	return gitsource.Commit{}, l.err
}

func TestPushDoesNotEndTheRestOfAServer(t *testing.T) {
	err := tooMany(t, "600")
	synctest.Test(t, func(t *testing.T) {
		look := make(chan struct{}, 1)
		look <- struct{}{}
		s := &limited{err: err}
		p := &poller{
			source: s, interval: time.Minute, now: time.Now, log: slog.New(slog.DiscardHandler),
			metrics: NewMetrics(prometheus.NewRegistry()), look: look,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx, make(chan update, 1)) }()
		asked := func(after time.Duration, want int64) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if got := s.asked.Load(); got != want {
				t.Errorf("asked %d times, want %d", got, want)
			}
		}
		asked(10*time.Minute-time.Second, 1)
		asked(2*time.Second, 2) // the push counts once the rest is over
		asked(10*time.Minute-10*time.Second, 2)
		cancel()
		<-done
	})
}

// tooMany is what a fetch fails with when the server asks to come back later.
func tooMany(t *testing.T, retryAfter string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	source, err := gitsource.New(gitsource.Options{URL: server.URL + "/fleet.git"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = source.Fetch(t.Context()); err == nil {
		t.Fatal("the fetch did not fail")
	}
	return err
}
