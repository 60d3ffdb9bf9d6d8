// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// APIProxy stands in front of a sandbox's API server and can say that the time
// is another than it is.
type APIProxy struct {
	Config *rest.Config // of clients that go through it

	ahead atomic.Int64
}

// Proxy starts a proxy that ends with the test.
func (c *Cluster) Proxy(t testing.TB) *APIProxy {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	p := &APIProxy{}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: p.shift,
		ErrorLog:       log.New(io.Discard, "", 0), // a client that has gone away
	})
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	p.Config = rest.CopyConfig(c.Config)
	p.Config.Host = server.URL
	p.Config.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	return p
}

// SetAhead makes the time of every answer from now on that much later than it
// is, or earlier.
func (p *APIProxy) SetAhead(d time.Duration) { p.ahead.Store(int64(d)) }

func (p *APIProxy) shift(resp *http.Response) error {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return err
	}
	resp.Header.Set("Date", date.Add(time.Duration(p.ahead.Load())).Format(http.TimeFormat))
	return nil
}
