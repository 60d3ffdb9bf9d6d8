// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"lamplighter.dev/reconcile/rollout"
)

const (
	// longestBody is how much of an answer is read.
	longestBody = 1 << 20
	// mostRedirects is how often an answer may send us elsewhere on its host.
	mostRedirects = 5
)

// Web answers the questions that are sent to an address that somebody has named:
// it goes there, and nowhere else.
type Web struct{ client *http.Client }

// NewWeb returns a Web that has asked nobody yet.
func NewWeb() *Web {
	return &Web{client: &http.Client{
		Transport:     bounded{&http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}},
		CheckRedirect: stayThere,
	}}
}

// stayThere follows redirects on the same host only. Another one is not
// followed, so that its status is what counts.
func stayThere(next *http.Request, via []*http.Request) error {
	if len(via) > mostRedirects || next.URL.Scheme != via[0].URL.Scheme || next.URL.Host != via[0].URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// bounded is a connection whose answers have an end.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &limited{body: response.Body, left: longestBody}
	return response, nil
}

type limited struct {
	body io.ReadCloser
	left int
}

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", longestBody)

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.body.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }

// HTTP asks whether an address answers a GET with the status that it should.
// The body is not read.
func (w *Web) HTTP(ctx context.Context, q rollout.Question) rollout.Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.HTTP.URL, nil)
	if err != nil {
		return unreadable(ctx, err)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return unreadable(ctx, err)
	}
	if err := response.Body.Close(); err != nil {
		return unreadable(ctx, err)
	}
	if response.StatusCode != q.HTTP.ExpectedStatus {
		return rollout.Answer{Reply: rollout.No, Message: fmt.Sprintf("%s answered %d, wanted %d", host(q.HTTP.URL), response.StatusCode, q.HTTP.ExpectedStatus)}
	}
	return rollout.Answer{Reply: rollout.Yes}
}

// unreadable is the answer when there is none. What the address has in its query
// may be secret and is kept back.
func unreadable(ctx context.Context, err error) rollout.Answer {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", host(e.URL), e.Err)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rollout.Answer{Reply: rollout.Unknown, Message: oneLine(err.Error())}
}

// host is the part of an address that may be shown.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	return u.Host
}
