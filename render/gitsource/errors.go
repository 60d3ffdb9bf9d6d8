// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// said is an error in other words.
type said struct {
	words string
	err   error
}

func (s said) Error() string { return s.words }
func (s said) Unwrap() error { return s.err }

// connectionPorts are the two ends of a connection, of which one is new each
// time.
var connectionPorts = regexp.MustCompile(`\S+:\d+->\S+:\d+:? ?`)

// plain says an error in one line that is the same each time the same goes
// wrong: errors are recorded, and a record that changes is written again.
func plain(err error) error {
	words := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok {
		words = strings.Replace(words, e.Error(), e.Err.Error(), 1) // the URL is told already
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		words = strings.Replace(words, e.Error(), e.Op+": "+e.Err.Error(), 1)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		words = strings.Replace(words, e.Error(), lookupFailure(e), 1)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		words = fmt.Sprintf("the certificate of the server is good from %s to %s only",
			e.Cert.NotBefore.UTC().Format(time.RFC3339), e.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	words = connectionPorts.ReplaceAllString(words, "")
	words = strings.Join(strings.Fields(words), " ")
	const most = 300
	if len(words) > most {
		words = words[:most] + "..."
	}
	return said{strings.ToValidUTF8(words, "?"), err}
}

func lookupFailure(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "there is no host " + e.Name
	case e.IsTimeout:
		return "no answer about host " + e.Name
	default:
		return "cannot look up host " + e.Name
	}
}

// outOfTime says what was being waited for when ctx ended.
func outOfTime(ctx context.Context, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s: %w", timeout, ctx.Err())
	}
	return ctx.Err()
}
