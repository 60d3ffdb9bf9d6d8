// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// GitOptions shape a Git server. The zero value serves plain HTTP to everybody.
type GitOptions struct {
	TLS                bool
	Username, Password string // both empty: nobody is asked
	// BearerToken is asked for instead of a password.
	BearerToken string
	// ClientCA is PEM: only clients with a certificate of it are served. Needs TLS.
	ClientCA []byte
}

// GitRequests counts what clients asked for.
type GitRequests struct {
	Refs  int // GET info/refs: every ls-remote, clone and fetch starts with one
	Packs int // POST git-upload-pack: object transfers, and ls-refs of protocol 2
}

// GitServer is Git's own smart HTTP server on the loopback interface, over
// bare repositories in a temporary folder. Clients can read, and tests write
// through GitRepo.
type GitServer struct {
	options GitOptions
	dir     string
	addr    string // host:port, kept across Restart
	backend http.Handler

	mu       sync.Mutex
	server   *httptest.Server // nil while stopped
	requests GitRequests
}

// StartGit starts a Git server that stops when the test ends.
func StartGit(t testing.TB, o GitOptions) *GitServer {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("find git: %v", err)
	}
	s := &GitServer{options: o, dir: t.TempDir(), addr: "127.0.0.1:0"}
	s.backend = &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:    append(gitEnv(s.dir), "GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: io.Discard, // it names clients that hang up, which tests do
	}
	s.Restart(t)
	t.Cleanup(s.Stop)
	return s
}

// Stop refuses connections until Restart, and drops the open ones.
func (s *GitServer) Stop() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

// Restart serves again, at the same address and with the same certificate.
func (s *GitServer) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		t.Fatalf("start Git server: %v", err)
	}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close() // httptest opened one that we do not want
	server.Listener = listener
	if s.options.ClientCA != nil {
		clients := x509.NewCertPool()
		clients.AppendCertsFromPEM(s.options.ClientCA)
		server.TLS = &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it names clients that do not trust us, or we them
	if s.options.TLS {
		server.StartTLS()
	} else {
		server.Start()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.addr = server, listener.Addr().String()
}

// URL is the server's base, without credentials and final slash.
func (s *GitServer) URL() string {
	scheme := "http"
	if s.options.TLS {
		scheme = "https"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return scheme + "://" + s.addr
}

// CA is the certificate that a client of a TLS server trusts, as PEM.
func (s *GitServer) CA(t testing.TB) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil || !s.options.TLS {
		t.Fatal("the Git server is stopped or does not use TLS")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
}

// Requests are the requests answered so far, refused ones aside.
func (s *GitServer) Requests() GitRequests {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ServeHTTP makes the server an http.Handler: credentials, counting, then Git.
func (s *GitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.allows(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "authentication required", http.StatusUnauthorized)
		return
	}
	s.count(r)
	if err := unchunk(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.backend.ServeHTTP(w, r)
}

func (s *GitServer) allows(r *http.Request) bool {
	if s.options.BearerToken != "" {
		return equal(r.Header.Get("Authorization"), "Bearer "+s.options.BearerToken)
	}
	if s.options.Username == "" && s.options.Password == "" {
		return true
	}
	user, password, _ := r.BasicAuth()
	return equal(user, s.options.Username) && equal(password, s.options.Password)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *GitServer) count(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/info/refs"):
		s.requests.Refs++
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		s.requests.Packs++
	}
}

// unchunk gives a body its length, which CGI wants to know beforehand.
func unchunk(r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return nil
}
