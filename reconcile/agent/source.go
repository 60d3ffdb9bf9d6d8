// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/render"
	"lamplighter.dev/render/gitsource"
)

// update is the newest word from Git. The fleet is the last good commit; err
// says why the newest one is not in force.
type update struct {
	fleet *reconcile.Fleet
	err   error
	// answers is the newest request for a pass that was known when Git was asked.
	answers time.Time
}

// source is where commits come from.
type source interface {
	Fetch(ctx context.Context) (gitsource.Commit, error)
}

// poller asks the remote for the newest commit, renders it, and hands it on.
// A commit that cannot be read leaves the last good one in force.
type poller struct {
	source  source
	trust   trust
	forward forward
	// decryptionKeys is where the keys are that open encrypted files, if any.
	decryptionKeys string

	path     string
	interval time.Duration
	now      func() time.Time
	log      *slog.Logger
	metrics  *Metrics
	look     <-chan struct{} // somebody has pushed: ask before the interval is over
	// requested is the newest request for a pass; nil if there can be none.
	requested func() time.Time

	reader   reconcile.Reader
	seen     string // hash of the commit read last, good or bad
	refused  error  // why that commit is not in force, nil when it is
	failures int    // times in a row that the remote failed
	failure  error  // of the remote the last time, nil when it did not fail
	last     update
}

// run polls until ctx is done. Only the newest update waits in out, which has
// room for one.
func (p *poller) run(ctx context.Context, out chan update) {
	for pushed := false; ; {
		before := p.seen
		if u, changed := p.poll(ctx); changed {
			select {
			case <-out:
			default:
			}
			out <- u
		}
		rest := askedRest(p.failure)
		if sleep(ctx, rest); ctx.Err() != nil {
			return
		}
		d := jitter(pause(p.interval, p.failures)) - rest
		if pushed && p.seen == before {
			d = min(d, secondLook)
		}
		if pushed = p.wait(ctx, d); ctx.Err() != nil {
			return
		}
	}
}

// wait blocks for a time, or until somebody has pushed, and says whether that is
// why it ended.
func (p *poller) wait(ctx context.Context, d time.Duration) (pushed bool) {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return false
	case <-p.look:
	}
	select {
	case <-ctx.Done():
	case <-time.After(lookDelay):
	}
	select {
	case <-p.look:
	default:
	}
	return true
}

// poll asks once. It answers whether there is anything new to say.
func (p *poller) poll(ctx context.Context) (update, bool) {
	before, answers := p.last, p.answers()
	start := p.now()
	commit, err := p.source.Fetch(ctx)
	if ctx.Err() != nil {
		return p.last, false
	}
	p.metrics.fetch(p.now().Sub(start), err)
	p.failure = err
	switch {
	case err != nil:
		p.last.err = err
	case commit.Hash != p.seen || p.forward.tellsAgain(p.refused):
		p.read(ctx, commit)
	default:
		p.last.err = p.refused // the remote is back and has nothing new
	}
	if p.failures++; p.failure == nil {
		p.failures = 0
	}
	if p.last.err != nil && (before.err == nil || before.err.Error() != p.last.err.Error()) {
		p.log.Warn("newest commit is not in force", "err", p.last.err)
	}
	p.last.answers = answers
	return p.last, !sameUpdate(before, p.last)
}

func (p *poller) answers() time.Time {
	if p.requested == nil {
		return time.Time{}
	}
	return p.requested()
}

func (p *poller) read(ctx context.Context, c gitsource.Commit) {
	signer, err := p.trust.check(c, p.now())
	if err != nil {
		p.refuse(c, err)
		p.seen = "" // it may be trusted at the next poll, with other keys
		return
	}
	if err := p.forward.check(ctx, p.last.fleet); err != nil {
		p.refuse(c, err)
		if _, final := errors.AsType[backwardError](err); !final {
			p.seen = "" // it could not be told; ask again at the next poll
		}
		if e, ok := errors.AsType[remoteError](err); ok {
			p.failure = e
		}
		return
	}
	if err := p.readKeys(); err != nil {
		p.refuse(c, err)
		p.seen = "" // the file may be mended at the next poll
		return
	}
	fleet, err := p.reader.Read(ctx, c.Tree, p.path, reconcile.Commit{
		Hash: c.Hash, Branch: c.Branch, Author: c.Author, Subject: c.Subject, When: c.When,
	}, p.now())
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.refuse(c, err)
		if errors.Is(err, context.DeadlineExceeded) {
			p.seen = "" // on a busy machine; read again at the next poll
		}
		if _, ok := errors.AsType[*render.DecryptError](err); ok {
			p.seen = "" // the key may be there at the next poll
		}
		return
	}
	p.seen, p.refused, p.last = c.Hash, nil, update{fleet: fleet}
	if signer != "" {
		p.log.Info("commit verified", "revision", short(c.Hash), "signer", signer)
	}
	for _, w := range fleet.Warnings {
		p.log.Warn("fleet", "revision", c.Hash, "problem", w.String())
	}
}

// refuse leaves the last good commit in force.
func (p *poller) refuse(c gitsource.Commit, err error) {
	p.seen, p.refused = c.Hash, commitError{hash: c.Hash, err: err}
	p.last.err = p.refused
}

// commitError says which commit was refused.
type commitError struct {
	hash string
	err  error
}

func (e commitError) Error() string { return "commit " + short(e.hash) + ": " + e.err.Error() }
func (e commitError) Unwrap() error { return e.err }

func short(hash string) string { return hash[:min(len(hash), 7)] }

func sameUpdate(a, b update) bool {
	if a.fleet != b.fleet || !a.answers.Equal(b.answers) {
		return false
	}
	if a.err == nil || b.err == nil {
		return a.err == nil && b.err == nil
	}
	return a.err.Error() == b.err.Error()
}

// jitter spreads the polls of many clusters: up to a tenth more or less.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
