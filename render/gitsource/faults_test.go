// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// shortTimeout is for servers that say nothing.
const shortTimeout = 100 * time.Millisecond

// startProxy starts an http proxy that tunnels to the addresses it knows.
func startProxy(t *testing.T, known map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := known[r.Host]
		if r.Method != http.MethodConnect || !ok {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		up, err := net.Dial("tcp", at)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		join(up, down)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// join copies both ways until one side ends.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	wg.Wait()
}
