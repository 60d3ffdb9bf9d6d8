// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"lamplighter.dev/render/gitsource"
)

// asked is a Git remote that notes when it was asked, and shows its newest commit
// late.
type asked struct {
	times []time.Time
	hash  string
	next  string // shown from late on
	late  time.Time
}

func (a *asked) Fetch(context.Context) (gitsource.Commit, error) {
	a.times = append(a.times, time.Now())
	if a.next != "" && !time.Now().Before(a.late) {
		a.hash = a.next
	}
	return gitsource.Commit{Hash: a.hash, Tree: fstest.MapFS{}}, nil
}

func TestPushIsLookedForBeforeTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote, p := &asked{hash: "first"}, newPushes(Store{}, time.Now, slog.New(slog.DiscardHandler))
		defer p.leading()()
		poller := &poller{
			source: remote, interval: time.Hour, now: time.Now, log: slog.New(slog.DiscardHandler),
			metrics: NewMetrics(prometheus.NewRegistry()), look: p.look,
		}
		start := time.Now()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { poller.run(ctx, make(chan update, 1)); close(done) }()

		<-time.After(time.Minute)
		synctest.Wait()
		remote.hash = "second"
		for range 20 { // one burst
			p.told()
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		remote.next, remote.late = "third", time.Now().Add(3*time.Second)
		p.told()
		<-time.After(time.Minute)
		p.told() // of another branch: there is nothing new
		<-time.After(time.Minute)
		end()
		<-done

		var got []time.Duration
		for _, at := range remote.times {
			got = append(got, at.Sub(start).Truncate(time.Second))
		}
		want := []time.Duration{0, 60 * time.Second, 120 * time.Second, 130 * time.Second, 180 * time.Second, 190 * time.Second}
		if !slices.Equal(got, want) || poller.seen != "third" {
			t.Errorf("asked at %v, want %v: at the start, once for the burst, and twice for what is not seen at once", got, want)
		}
	})
}

func TestStandbyTellsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []time.Time
		p := newPushes(Store{}, time.Now, slog.New(slog.DiscardHandler))
		failing := true
		p.note = func(_ context.Context, at time.Time) error {
			notes = append(notes, at)
			if failing {
				return errors.New("the API server is away")
			}
			return nil
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.forward(ctx); close(done) }()

		start := time.Now()
		for range 30 { // within three seconds
			p.told()
			<-time.After(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(notes); n < 3 || n > 4 {
			t.Errorf("%d notes in three seconds, want one a second", n)
		}
		failing = false
		stop := p.leading()
		<-time.After(10 * time.Second)
		synctest.Wait()
		before := len(notes)
		p.told()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if len(notes) != before || len(p.look) != 1 {
			t.Errorf("a leader tells itself: %d notes more, %d looks", len(notes)-before, len(p.look))
		}
		stop()
		p.told()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if len(notes) != before+1 || !notes[before].After(start) {
			t.Errorf("notes %v, want one more", notes)
		}
		end()
		<-done
	})
}

func TestReceiverNeedsItsSecret(t *testing.T) {
	dir := t.TempDir()
	good, short := filepath.Join(dir, "good"), filepath.Join(dir, "short")
	for file, content := range map[string]string{good: "0123456789abcdef\n", short: "hunter2"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ address, file, want string }{
		"neither":      {"", "", ""},
		"both":         {":0", good, ""},
		"no file":      {":0", "", "--webhook and --webhook-token-file need each other"},
		"no address":   {"", good, "--webhook and --webhook-token-file need each other"},
		"file is gone": {":0", filepath.Join(dir, "gone"), "webhook secret: open "},
		"short secret": {":0", short, "7 characters can be guessed"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := New(Config{
				Source: gitsource.Options{URL: "file:///fleet"}, Cluster: &rest.Config{}, Namespace: "ns", Instance: "lamp",
				Webhook: tt.address, WebhookTokenFile: tt.file,
			})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || (a.receiver != nil) != (tt.address != "") {
				t.Errorf("err = %v, receiver %t", err, a.receiver != nil)
			}
		})
	}
}

// A request is answered by a look at Git that began after it, though Git has
// nothing new.
func TestPollAnswersRequestsThatItKnewOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requested time.Time
		look, updates := make(chan struct{}, 1), make(chan update, 1)
		poller := &poller{
			source: &asked{hash: "only"}, interval: time.Hour, now: time.Now, log: slog.New(slog.DiscardHandler),
			metrics: NewMetrics(prometheus.NewRegistry()), look: look, requested: func() time.Time { return requested },
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { poller.run(ctx, updates); close(done) }()
		defer func() { end(); <-done }()

		if u := <-updates; !u.answers.IsZero() {
			t.Errorf("the first look answers %s, and nobody has asked", u.answers)
		}
		for range 2 {
			requested = time.Now()
			signal(look)
			if u := <-updates; !u.answers.Equal(requested) {
				t.Errorf("a look answers %s, want %s", u.answers, requested)
			}
		}
		signal(look) // a push of another branch
		<-time.After(time.Minute)
		synctest.Wait()
		if len(updates) > 0 {
			t.Errorf("what has been answered is answered again: %+v", <-updates)
		}
	})
}
