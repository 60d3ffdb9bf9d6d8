// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/render/gitsource"
)

// stopTimeout is how long an agent may take to stop, and to give its Lease back.
const stopTimeout = 15 * time.Second

// running is an agent in this process.
type running struct {
	log  *log
	end  context.CancelFunc
	done chan struct{}
	err  error // once done
}

// start starts an agent that stops with the test, if not before.
func (w *world) start(t testing.TB, change ...func(*agent.Config)) *running {
	t.Helper()
	r := &running{log: &log{}, done: make(chan struct{})}
	cfg := agent.Config{
		Source:    gitsource.Options{URL: w.repo.URL()},
		Interval:  time.Second,
		Cluster:   rest.CopyConfig(w.Config),
		Namespace: w.instance.Namespace,
		Instance:  w.instance.Name,
		Log:       slog.New(slog.NewTextHandler(r.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	r.end = end
	go func() {
		defer close(r.done)
		r.err = a.Run(ctx)
	}()
	t.Cleanup(func() {
		r.stop(t)
		if t.Failed() {
			t.Logf("the agent's log:\n%s", r.log.String())
		}
	})
	return r
}

// stop ends the agent as a signal does, and waits until it has ended well.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.end()
	select {
	case <-r.done:
	case <-time.After(stopTimeout):
		t.Fatalf("the agent has not stopped after %s", stopTimeout)
	}
	if r.err != nil {
		t.Errorf("the agent ended with %v", r.err)
	}
}

// log keeps what is written to it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// terms is how often the agent has begun to lead. Each time it begins with nothing
// in memory: on a machine that stands still for a while the Lease may be lost.
func (l *log) terms() int { return len(l.lines("msg=leading ")) }

// lines are those that hold a text.
func (l *log) lines(text string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
