// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"lamplighter.dev/reconcile/agent/webhook"
)

const (
	// lookDelay gathers what is said of one push, and of several in a row, into
	// one look.
	lookDelay = 500 * time.Millisecond
	// secondLook is when to look once more after a push that is not to be seen: a
	// host may tell of it before all its servers show it.
	secondLook = 10 * time.Second
	// forwardDelay is how long a process waits between two words to the leader.
	forwardDelay = time.Second
	// forwardTimeout bounds one of them.
	forwardTimeout = 10 * time.Second
)

// pushes brings word of a push to the process that asks Git. A Service gives a
// webhook to any process of the instance, and only the leader asks: another one
// leaves a note in the state, which the leader watches.
type pushes struct {
	note func(context.Context, time.Time) error
	now  func() time.Time
	log  *slog.Logger

	leads   atomic.Bool
	look    chan struct{} // the leader's poller waits for it
	noticed chan struct{} // forward waits for it
}

func newPushes(states Store, now func() time.Time, log *slog.Logger) *pushes {
	return &pushes{note: states.Note, now: now, log: log, look: make(chan struct{}, 1), noticed: make(chan struct{}, 1)}
}

// leading says that this process asks Git, until what it returns is called.
func (p *pushes) leading() (ends func()) {
	p.leads.Store(true)
	return func() { p.leads.Store(false) }
}

// told takes word of a push. It does not block.
func (p *pushes) told() {
	if p.leads.Load() {
		signal(p.look)
		return
	}
	signal(p.noticed)
}

// forward leaves notes for the leader until ctx is done.
func (p *pushes) forward(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.noticed:
		}
		if err := p.leave(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the leader is not told of a push, and sees it at its next look", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(forwardDelay):
		}
	}
}

func (p *pushes) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	return p.note(ctx, p.now())
}

// newReceiver answers the webhook receiver, nil if none is wanted.
func (a *Agent) newReceiver() (*webhook.Receiver, error) {
	if a.cfg.Webhook == "" {
		return nil, nil
	}
	r, err := webhook.New(webhook.Options{
		Secret: func() ([]byte, error) {
			token, err := os.ReadFile(a.cfg.WebhookTokenFile)
			return bytes.TrimSpace(token), err
		},
		Look:  a.pushes.told,
		Count: a.metrics.webhook,
		Log:   a.log,
		Now:   a.cfg.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("--webhook-token-file %s: %w", a.cfg.WebhookTokenFile, err)
	}
	return r, nil
}
