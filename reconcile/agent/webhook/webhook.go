// SPDX-License-Identifier: Apache-2.0

// Package webhook answers whether an HTTP request is a Git host's word that
// somebody has pushed, and passes it on as "look now". It never says what to
// apply: the payload is checked against its signature and not read, so a push
// to another branch costs a look that finds nothing new. That is also why no
// library of a host's is used here: what they are for is reading payloads, and
// what is left is one HMAC of the standard library's.
//
//	r, err := webhook.New(webhook.Options{Secret: readToken, Look: poller.look, Now: time.Now})
//	err = webhook.Server(r).Serve(listener)
package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"golang.org/x/time/rate"
)

// Path is where the receiver answers.
const Path = "/webhook"

const (
	// maxBody bounds a payload. The hosts cut theirs long before.
	maxBody = 1 << 20
	// maxHeader bounds what comes before it.
	maxHeader = 32 << 10
	// readTimeout bounds how long one request may take to arrive. The hosts
	// give up on an answer after ten seconds.
	readTimeout = 10 * time.Second
	// perSecond and burst bound the payloads that are looked at.
	perSecond, burst = 10, 50
	// minSecret is the length below which a secret can be guessed.
	minSecret = 16
)

// Options say what a receiver trusts and whom it tells.
type Options struct {
	// Secret answers the secret that the Git host knows too. It is asked for
	// each request, so a secret that was replaced counts at once.
	Secret func() ([]byte, error)
	// Look is told of a push. It must not block.
	Look func()
	// Count is told how each request ended. Nil counts nothing.
	Count func(Result)
	// Log takes one line for each push, and some for what was refused. Nil
	// discards them.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Receiver is the HTTP handler. It may be used by several goroutines.
type Receiver struct {
	options  Options
	limit    *rate.Limiter
	seen     *memory
	refusals rate.Sometimes
}

// New reads the secret once, so that a receiver without one does not start.
func New(o Options) (*Receiver, error) {
	if _, err := readSecret(o); err != nil {
		return nil, err
	}
	if o.Count == nil {
		o.Count = func(Result) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Receiver{
		options:  o,
		limit:    rate.NewLimiter(perSecond, burst),
		seen:     newMemory(),
		refusals: rate.Sometimes{First: 5, Interval: 10 * time.Second},
	}, nil
}

// Server serves a receiver on Path, and bounds what a client may send and how
// long it may take.
func Server(r *Receiver) *http.Server {
	mux := http.NewServeMux()
	mux.Handle(Path, r)
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readTimeout / 2,
		ReadTimeout:       readTimeout,
		WriteTimeout:      2 * readTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
	}
}

// ServeHTTP answers a Git host.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d := r.receive(w, req)
	r.options.Count(d.result)
	r.log(d)
	switch d.result {
	case WrongMethod:
		w.Header().Set("Allow", http.MethodPost)
	case TooMany:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(statusOf[d.result])
	_, _ = fmt.Fprintln(w, d.says()) // the host may have hung up
}

// delivery is one request and what became of it.
type delivery struct {
	result Result
	forge  string // "" when no host we know signs like this
	event  string // as the host says; "" if it says none
	why    string // of a request that is refused
}

// receive decides about one request. The secret is the last thing that is
// compared: nothing before it costs more than reading the headers.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) delivery {
	if req.Method != http.MethodPost {
		return delivery{result: WrongMethod}
	}
	f := forgeOf(req.Header)
	if f == nil {
		return unsigned(req.Header)
	}
	d := delivery{forge: f.name, event: f.eventOf(req.Header)}
	if req.ContentLength > maxBody {
		return d.as(TooLarge)
	}
	if !r.limit.AllowN(r.options.Now(), 1) {
		return d.as(TooMany)
	}
	secret, err := readSecret(r.options)
	if err != nil {
		d.why = err.Error()
		return d.as(NoSecret)
	}
	sum, body := hmac.New(sha256.New, secret), sha256.New()
	if _, err := io.Copy(io.MultiWriter(sum, body), http.MaxBytesReader(w, req.Body, maxBody)); err != nil {
		return d.unread(err)
	}
	switch {
	case !f.signed(req.Header, sum.Sum(nil), secret):
		return d.as(WrongSignature)
	case f.isPing(d.event):
		return d.as(Ping)
	case !f.isPush(d.event):
		return d.as(Ignored)
	case !r.seen.first(f.key(req.Header, body.Sum(nil)), r.options.Now()):
		return d.as(Replayed)
	}
	r.options.Look()
	return d.as(Accepted)
}

func (d delivery) as(result Result) delivery {
	d.result = result
	return d
}

// unread is a payload that did not arrive.
func (d delivery) unread(err error) delivery {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return d.as(TooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return d.as(TooSlow)
	default:
		return d.as(CutOff)
	}
}

// readSecret answers the secret, or one line that does not hold it.
func readSecret(o Options) ([]byte, error) {
	secret, err := o.Secret()
	if err != nil {
		return nil, fmt.Errorf("webhook secret: %w", err)
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("webhook secret: %d characters can be guessed: use at least %d, such as openssl rand -hex 32 prints", len(secret), minSecret)
	}
	return secret, nil
}

// log says what a push led to. Anybody can send requests that are refused, so
// only some of them are told.
func (r *Receiver) log(d delivery) {
	attrs := []any{"result", d.result, "forge", d.forge, "event", d.event}
	switch d.result {
	case Accepted, Ping:
		r.options.Log.Info("webhook", attrs...)
	case Ignored, Replayed:
		r.options.Log.Debug("webhook", attrs...)
	default:
		r.refusals.Do(func() { r.options.Log.Warn("webhook", append(attrs, "err", cmp.Or(d.why, d.says()))...) })
	}
}
