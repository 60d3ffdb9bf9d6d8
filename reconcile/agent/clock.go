// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/reconcile"
)

const (
	// askTimeout bounds the question that is asked only to hear the time.
	askTimeout = 10 * time.Second
	// askAgain is how soon it is asked once more after it was of no use.
	askAgain = 30 * time.Second
)

// Clock compares this machine's clock with the Date of the API server's answers
// to whatever is asked of it. It may be used from many goroutines.
//
//	clock := agent.NewClock(time.Now)
//	client, err := kubernetes.NewForConfig(clock.Through(config))
//	reconcile.Options{Clock: clock.Asking(client)}
type Clock struct {
	now     func() time.Time
	start   time.Time
	changed chan struct{}
	skewed  func(time.Duration)

	mu     sync.Mutex
	judged judgement
	silent string        // why the last question was of no use; "" when none was asked
	asked  time.Duration // when that was, as in instant.ran
}

// NewClock returns a Clock that has compared nothing yet.
func NewClock(now func() time.Time) *Clock {
	return &Clock{now: now, start: now(), changed: make(chan struct{}, 1), skewed: func(time.Duration) {}}
}

// Through is a configuration whose clients' answers are compared.
func (c *Clock) Through(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return comparing{c, next} })
	return config
}

// Problem says why the clock is not to be trusted; empty when nothing is known
// against it.
func (c *Clock) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judge(func(j *judgement) { j.look(c.read()) })
	return c.judged.problem
}

// Asking is the clock for a pass, which has the API server asked through client
// if nothing else was of late.
func (c *Clock) Asking(client kubernetes.Interface) reconcile.Clock { return asking{c, client} }

// read reads both clocks of this machine.
func (c *Clock) read() instant {
	now := c.now()
	return instant{wall: now.Round(0), ran: now.Sub(c.start)}
}

// judge changes the judgement, under the lock, and tells when another problem
// comes of it.
func (c *Clock) judge(change func(*judgement)) {
	before := c.judged.problem
	change(&c.judged)
	if c.judged.problem != before {
		signal(c.changed)
	}
}

// heard takes in what an answer says that the time is.
func (c *Clock) heard(sent instant, header http.Header) {
	server, err := http.ParseTime(header.Get("Date"))
	if err != nil || header.Get("Age") != "" { // an answer out of a cache is of another time
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judge(func(j *judgement) {
		r := reading{sent: sent, received: c.read(), server: server}
		if j.compare(r) {
			c.skewed(r.skew())
		}
	})
}

// comparing notes the Date of answers. Those of watches are left out: they are
// read long after they have begun.
type comparing struct {
	clock *Clock
	next  http.RoundTripper
}

func (c comparing) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := c.clock.read()
	resp, err := c.next.RoundTrip(req)
	if err == nil && !req.URL.Query().Has("watch") {
		c.clock.heard(sent, resp.Header)
	}
	return resp, err
}

// WrappedRoundTripper is for those who look for the transport's own settings.
func (c comparing) WrappedRoundTripper() http.RoundTripper { return c.next }

type asking struct {
	*Clock
	client kubernetes.Interface
}

// Confirm is Problem from a comparison that is young.
func (a asking) Confirm(ctx context.Context) string {
	if problem, known := a.confirmed(); known {
		return problem
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := a.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if err != nil {
		return a.answered("it cannot be compared: the API server was asked for the time and did not answer")
	}
	return a.answered("it cannot be compared: the API server's answer came too late, or without a Date")
}

// confirmed is the problem if one is known, or if it is known that there is
// none; also while it is too soon to ask again.
func (c *Clock) confirmed() (problem string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.read()
	c.judge(func(j *judgement) { j.look(at) })
	switch {
	case c.judged.problem != "", c.judged.young():
		return c.judged.problem, true
	case c.silent != "" && at.ran-c.asked < askAgain:
		return c.silent, true
	default:
		return "", false
	}
}

// answered is the problem after a question; otherwise says why it was of no use,
// if it was of none.
func (c *Clock) answered(otherwise string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.read()
	c.judge(func(j *judgement) { j.look(at) })
	if c.silent = ""; c.judged.problem != "" || c.judged.young() {
		return c.judged.problem
	}
	c.silent, c.asked = otherwise, at.ran
	return c.silent
}
