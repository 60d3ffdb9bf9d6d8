// SPDX-License-Identifier: Apache-2.0

package webhook

import "net/http"

// Result is how a request ended.
type Result string

const (
	// Accepted is a push: Look was told.
	Accepted Result = "accepted"
	// Ping is a test by the host, with the right signature if it has one.
	Ping Result = "ping"
	// Ignored has the right signature and is no push.
	Ignored Result = "ignored"
	// Replayed has the right signature and was accepted before.
	Replayed Result = "replayed"
	// WrongSignature was not signed with our secret.
	WrongSignature Result = "wrong_signature"
	// Unknown carries no signature that we know.
	Unknown Result = "unknown"
	// WrongMethod is no POST.
	WrongMethod Result = "wrong_method"
	// TooLarge has a payload that no push has.
	TooLarge Result = "too_large"
	// TooSlow has a payload that did not arrive in time.
	TooSlow Result = "too_slow"
	// CutOff has a payload that ended early.
	CutOff Result = "cut_off"
	// TooMany came with too many others.
	TooMany Result = "too_many"
	// NoSecret came while the secret could not be read.
	NoSecret Result = "no_secret"
)

// statusOf is what the hosts expect: they count anything but 2xx as a delivery
// that failed, show it to whoever looks, and may stop sending.
var statusOf = map[Result]int{
	Accepted:       http.StatusAccepted,
	Ping:           http.StatusOK,
	Ignored:        http.StatusOK,
	Replayed:       http.StatusOK,
	WrongSignature: http.StatusForbidden,
	Unknown:        http.StatusBadRequest,
	WrongMethod:    http.StatusMethodNotAllowed,
	TooLarge:       http.StatusRequestEntityTooLarge,
	TooSlow:        http.StatusRequestTimeout,
	CutOff:         http.StatusBadRequest,
	TooMany:        http.StatusTooManyRequests,
	NoSecret:       http.StatusServiceUnavailable,
}

// says is what the host shows of our answer. It tells nothing that only we
// know.
func (d delivery) says() string {
	switch d.result {
	case Accepted:
		return "looking at the repository"
	case Ping:
		if d.why != "" {
			return d.why
		}
		return "the secret is right"
	case Ignored:
		return "not a push: nothing to look for"
	case Replayed:
		return "this payload was accepted before: nothing to look for"
	case WrongSignature:
		return "the signature is wrong: the secret is not the agent's"
	case Unknown:
		return d.why
	case WrongMethod:
		return "send a POST"
	case TooLarge:
		return "the payload is larger than 1 MiB"
	case TooSlow:
		return "the payload did not arrive in time"
	case CutOff:
		return "the payload ended early"
	case TooMany:
		return "too many requests"
	case NoSecret:
		return "the agent cannot read its secret"
	}
	return ""
}
