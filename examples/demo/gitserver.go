// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitServer serves one bare repository over smart HTTP, by git's own program.
type gitServer struct {
	url    string
	server *http.Server
}

func serveGit(bare string) (*gitServer, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("git --exec-path: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1"},
	}
	s := &gitServer{
		url:    "http://" + ln.Addr().String() + "/" + filepath.Base(bare),
		server: &http.Server{Handler: backend, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = s.server.Serve(ln) }() // ends when stop closes it
	return s, nil
}

func (s *gitServer) stop() {
	if s != nil {
		_ = s.server.Close() // the demo is over
	}
}
