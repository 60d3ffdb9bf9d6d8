// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	refsPath = "/info/refs"
	// userAgent starts as git's does: some servers answer others with a web page.
	userAgent    = "git/lamplighter"
	maxRedirects = 5
)

// httpRemote speaks git's smart HTTP protocol: one request lists, one gets.
type httpRemote struct {
	at      address
	options Options
	tokens  *tokens
}

// connect reads the credentials and makes a client of them. It sends nothing,
// unless a GitHub App needs a token.
func (r *httpRemote) connect(ctx context.Context) (wire, error) {
	c, err := readCredentials(r.options.Auth)
	if err != nil {
		return nil, err
	}
	if err := c.forHTTP(); err != nil {
		return nil, err
	}
	base, err := url.Parse(r.at.String())
	if err != nil {
		return nil, errors.New("the URL of the repository cannot be read")
	}
	if c.dir != "" && insecure(base) {
		return nil, errors.New("http would show the credentials to everybody between here and there: use https")
	}
	transport, err := newTransport(c, r.options)
	if err != nil {
		return nil, err
	}
	w := &httpWire{base: base, credentials: c, transport: transport, tokens: r.tokens}
	if c.app.set() {
		if w.token, err = r.tokens.token(ctx, &http.Client{Transport: transport, CheckRedirect: refuseRedirect}, c.app); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// insecure says whether others can read what is sent to a URL.
func insecure(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Scheme != "https" && (u.Scheme != "http" || !loopback)
}

func newTransport(c credentials, o Options) (guarded, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if o.Proxy != "" {
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return guarded{}, errors.New("the URL of the proxy cannot be read")
		}
		t.Proxy = http.ProxyURL(u)
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != nil {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(c.ca)
	}
	if c.certificate != nil {
		pair, err := tls.X509KeyPair(c.certificate, c.key)
		if err != nil {
			return guarded{}, errors.New("tls.crt and tls.key are no pair of a certificate and its key")
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return guarded{t, o.AllowedHosts}, nil
}

// httpWire is one fetch over http.
type httpWire struct {
	base        *url.URL // where a redirect led to, after advertise
	credentials credentials
	token       string // of a GitHub App
	sent        string // the credentials as they were sent last
	transport   guarded
	tokens      *tokens
}

func (w *httpWire) redact(text string) string {
	return redact(text, w.sent, w.credentials.password, w.credentials.bearer, w.token)
}

func (w *httpWire) close() { w.transport.CloseIdleConnections() }

func (w *httpWire) advertise(ctx context.Context) (io.ReadCloser, error) {
	response, err := w.do(ctx, http.MethodGet, refsPath, nil)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); kind == "text/html" {
		response.Body.Close()
		return nil, errors.New("the server answers with a web page: is this the URL to clone from?")
	}
	if path, ok := strings.CutSuffix(response.Request.URL.Path, refsPath); ok {
		moved := *response.Request.URL
		moved.Path, moved.RawPath, moved.RawQuery = path, "", ""
		w.base = &moved
	}
	return response.Body, nil
}

func (w *httpWire) upload(ctx context.Context, request []byte) (io.ReadCloser, error) {
	response, err := w.do(ctx, http.MethodPost, "/git-upload-pack", request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// do sends one request and answers with a response of status 200.
func (w *httpWire) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	u := w.base.JoinPath(path)
	client := &http.Client{Transport: w.transport, CheckRedirect: refuseRedirect}
	if method == http.MethodGet {
		u.RawQuery = "service=git-upload-pack"
		client.CheckRedirect = sameHost
	}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL of the repository cannot be read")
	}
	request.Header.Set("User-Agent", userAgent)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-git-upload-pack-request")
		request.Header.Set("Accept", "application/x-git-upload-pack-result")
	}
	w.authenticate(request)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, w.refusal(response)
	}
	return response, nil
}

func (w *httpWire) authenticate(request *http.Request) {
	switch {
	case w.token != "":
		request.SetBasicAuth("x-access-token", w.token)
	case w.credentials.bearer != "":
		request.Header.Set("Authorization", "Bearer "+w.credentials.bearer)
	case w.credentials.username != "":
		request.SetBasicAuth(w.credentials.username, w.credentials.password)
	}
	_, w.sent, _ = strings.Cut(request.Header.Get("Authorization"), " ")
}

// refusal says what a status means, in our own words: what the server writes
// may be a web page, or what we sent.
func (w *httpWire) refusal(response *http.Response) error {
	status := newStatusError(response)
	switch response.StatusCode {
	case http.StatusUnauthorized:
		if w.token != "" {
			w.tokens.forget() // it may have been revoked
		}
		if w.credentials.dir == "" {
			return said{"the server asks for credentials", status}
		}
		return said{"the server refuses the credentials", status}
	case http.StatusForbidden:
		return said{"the server does not allow reading this repository", status}
	case http.StatusNotFound:
		return said{"there is no such repository, or it is hidden from us", status}
	default:
		return status
	}
}

// refuseRedirect is for requests that carry what only their server may see.
func refuseRedirect(request *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed here", bare(request.URL))
}

// sameHost follows a repository that was renamed, or from http to https.
func sameHost(request *http.Request, via []*http.Request) error {
	from, to := via[0].URL, request.URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("the server redirects in circles")
	case to.Hostname() != from.Hostname(),
		to.Port() != from.Port() && (from.Scheme != "http" || to.Scheme != "https"),
		insecure(to) && from.Scheme == "https":
		return fmt.Errorf("the server redirects to %s: if that is right, name it with --git", strings.TrimSuffix(bare(to), refsPath))
	case !strings.HasSuffix(to.Path, refsPath):
		return fmt.Errorf("the server redirects to %s, which is no repository", bare(to))
	default:
		return nil
	}
}

// statusError is an answer of a server that is not the one we hoped for.
type statusError struct {
	code       int
	retryAfter time.Duration // as the server asks; 0 without a word
}

func newStatusError(response *http.Response) statusError {
	return statusError{response.StatusCode, retryAfter(response.Header)}
}

func (e statusError) Error() string {
	text := http.StatusText(e.code)
	if text != "" {
		text = " " + text
	}
	return fmt.Sprintf("the server answers with status %d%s", e.code, text)
}

// retryAfter is how long a server wants to be left alone. One that names an
// instant is understood by its own clock.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}

// RetryAfter answers how long the server that caused err wants to be left
// alone; zero if it did not say.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[statusError](err); ok {
		return e.retryAfter
	}
	return 0
}
