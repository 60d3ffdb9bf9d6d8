// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What differs from one time to the next is not said: ports, addresses, clocks.
func TestErrorsAreTheSameEachTime(t *testing.T) {
	op := func(op string, port int, err error) error {
		return &net.OpError{
			Op: op, Net: "tcp", Err: err,
			Source: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(port)), Port: 443},
		}
	}
	expired := x509.CertificateInvalidError{
		Reason: x509.Expired, Detail: "current time 2026-03-02T09:00:00Z is after 2026-03-01T00:00:00Z",
		Cert: &x509.Certificate{NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"reset":         {op("read", 40001, syscall.ECONNRESET), "read: connection reset by peer"},
		"refused":       {op("dial", 40001, syscall.ECONNREFUSED), "dial: connection refused"},
		"of a request":  {&url.Error{Op: "Get", URL: "https://git.example/fleet.git/info/refs", Err: op("read", 40001, syscall.ECONNRESET)}, "read: connection reset by peer"},
		"as text":       {errors.New("ssh: handshake failed: read tcp 10.1.2.3:40001->10.0.0.1:22: read: connection reset by peer"), "ssh: handshake failed: read tcp read: connection reset by peer"},
		"of a fetch":    {fmt.Errorf("fetch c0ffee: %w", op("write", 40001, syscall.EPIPE)), "fetch c0ffee: write: broken pipe"},
		"no host":       {op("dial", 40001, &net.DNSError{Name: "git.example", Server: "10.96.0.10:53", Err: "no such host", IsNotFound: true}), "dial: there is no host git.example"},
		"DNS is silent": {op("dial", 40001, &net.DNSError{Name: "git.example", Err: "read udp 10.1.2.3:40001->10.96.0.10:53: i/o timeout", IsTimeout: true}), "dial: no answer about host git.example"},
		"DNS is broken": {op("dial", 40001, &net.DNSError{Name: "git.example", Err: "server misbehaving"}), "dial: cannot look up host git.example"},
		"expired":       {expired, "the certificate of the server is good from 2026-01-01T00:00:00Z to 2026-03-01T00:00:00Z only"},
		"several lines": {errors.New("one\n\ttwo\r\n"), "one two"},
		"endless":       {errors.New(strings.Repeat("x", 1000)), strings.Repeat("x", 300) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			got := plain(tt.err)
			if got.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !errors.Is(got, tt.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for name, tt := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"none":                    {http.Header{}, 0},
		"seconds":                 {http.Header{"Retry-After": {"120"}}, 2 * time.Minute},
		"negative":                {http.Header{"Retry-After": {"-1"}}, 0},
		"huge":                    {http.Header{"Retry-After": {"99999999999999999999"}}, 0},
		"instant":                 {http.Header{"Retry-After": {"Mon, 02 Mar 2026 09:05:00 GMT"}, "Date": {"Mon, 02 Mar 2026 09:00:00 GMT"}}, 5 * time.Minute},
		"instant that is past":    {http.Header{"Retry-After": {"Mon, 02 Mar 2026 08:05:00 GMT"}, "Date": {"Mon, 02 Mar 2026 09:00:00 GMT"}}, 0},
		"instant, unknown server": {http.Header{"Retry-After": {"Mon, 02 Mar 2026 09:05:00 GMT"}}, 0},
		"nonsense":                {http.Header{"Retry-After": {"soon"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("fetch: %w", said{"too many", newStatusError(&http.Response{StatusCode: 429, Header: tt.header})})
			if got := RetryAfter(err); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
