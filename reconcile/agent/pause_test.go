// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource"
)

func TestPauseAfterFailures(t *testing.T) {
	err := errors.New("no such host")
	for _, test := range []struct {
		name     string
		interval time.Duration
		failures int
		err      error
		want     time.Duration
	}{
		{"none", time.Minute, 0, nil, time.Minute},
		{"first", time.Minute, 1, err, time.Minute},
		{"second", time.Minute, 2, err, 2 * time.Minute},
		{"third", time.Minute, 3, err, 4 * time.Minute},
		{"many", time.Minute, 1 << 40, err, 5 * time.Minute},
		{"rare polls stay as rare as they are", time.Hour, 9, err, time.Hour},
		{"server asks for less than the interval", time.Minute, 1, tooMany(t, "7"), time.Minute},
		{"server asks for more", time.Minute, 1, tooMany(t, "600"), 10 * time.Minute},
		{"server asks for a year", time.Minute, 1, tooMany(t, "31536000"), time.Hour},
		{"server asks for nonsense", time.Minute, 1, tooMany(t, "tomorrow"), time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := pause(test.interval, test.failures, test.err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// tooMany is what a fetch fails with when the server asks to come back later.
func tooMany(t *testing.T, retryAfter string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	source, err := gitsource.New(gitsource.Options{URL: server.URL + "/fleet.git"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = source.Fetch(t.Context()); err == nil {
		t.Fatal("the fetch did not fail")
	}
	return err
}
