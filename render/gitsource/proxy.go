// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"
)

// dialVia connects to host:port, through a proxy if there is one.
func dialVia(ctx context.Context, proxyURL, address string) (net.Conn, error) {
	if proxyURL == "" {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	u, err := url.Parse(proxyURL)
	if err != nil {
		return nil, errors.New("the URL of the proxy cannot be read")
	}
	if u.Scheme == "socks5" {
		dialer, err := proxy.SOCKS5("tcp", withPort(u, "1080"), nil, nil)
		if err != nil {
			return nil, err
		}
		return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	}
	return dialHTTPProxy(ctx, u, address)
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// dialHTTPProxy asks an http proxy for a tunnel.
func dialHTTPProxy(ctx context.Context, u *url.URL, address string) (_ net.Conn, err error) {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", withPort(u, port))
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if u.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	// The server speaks first in ssh: what it says may come with the answer.
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy refuses to connect to %s: status %d", address, response.StatusCode)
	}
	return &bufferedConn{conn, reader}, nil
}

// bufferedConn is a connection of which some bytes are read already.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
