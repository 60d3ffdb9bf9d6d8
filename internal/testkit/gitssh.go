// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// GitSSHOptions shape an ssh server.
type GitSSHOptions struct {
	// Users may log in with these keys, under any name.
	Users []ssh.PublicKey
	// HostKeys are what the server proves itself with. None: one of its own.
	HostKeys []ssh.Signer
}

// GitSSH serves the repositories of a GitServer over ssh, with Git's own
// git-upload-pack. Like the large hosts it runs nothing else.
type GitSSH struct {
	git      *GitServer
	config   *ssh.ServerConfig
	hostKeys []ssh.Signer
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// StartSSH starts an ssh server that stops when the test ends.
func (s *GitServer) StartSSH(t testing.TB, o GitSSHOptions) *GitSSH {
	t.Helper()
	if len(o.HostKeys) == 0 {
		o.HostKeys = []ssh.Signer{NewSSHKey(t)}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start ssh server: %v", err)
	}
	g := &GitSSH{git: s, hostKeys: o.HostKeys, listener: listener, conns: map[net.Conn]bool{}}
	g.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		for _, user := range o.Users {
			if bytes.Equal(user.Marshal(), key.Marshal()) {
				return nil, nil
			}
		}
		return nil, errors.New("unknown key")
	}}
	for _, key := range o.HostKeys {
		g.config.AddHostKey(key)
	}
	g.done.Go(g.serve)
	t.Cleanup(g.Stop)
	return g
}

// NewSSHKey makes a key of a user or a host.
func NewSSHKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// Stop closes all connections and waits for what served them.
func (g *GitSSH) Stop() {
	_ = g.listener.Close()
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.done.Wait()
}

// Addr is the server's host and port.
func (g *GitSSH) Addr() string { return g.listener.Addr().String() }

// URL is where clients find a repository of the GitServer.
func (g *GitSSH) URL(repo *GitRepo) string {
	return "ssh://git@" + g.Addr() + "/" + repo.name + ".git"
}

// KnownHosts is a known_hosts file with the server's keys.
func (g *GitSSH) KnownHosts() string {
	var lines strings.Builder
	for _, key := range g.hostKeys {
		fmt.Fprintln(&lines, knownhosts.Line([]string{g.Addr()}, key.PublicKey()))
	}
	return lines.String()
}

func (g *GitSSH) serve() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.conns[conn] = true
		g.mu.Unlock()
		g.done.Go(func() {
			g.handshake(conn)
			_ = conn.Close()
			g.mu.Lock()
			delete(g.conns, conn)
			g.mu.Unlock()
		})
	}
}

func (g *GitSSH) handshake(conn net.Conn) {
	server, channels, requests, err := ssh.NewServerConn(conn, g.config)
	if err != nil {
		return // a client we do not know, or one that does not know us
	}
	g.done.Go(func() { ssh.DiscardRequests(requests) })
	for channel := range channels {
		if channel.ChannelType() != "session" {
			_ = channel.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		if session, requests, err := channel.Accept(); err == nil {
			g.done.Go(func() { g.session(session, requests) })
		}
	}
	_ = server.Wait()
}

func (g *GitSSH) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		var command struct{ Line string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &command) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		status := g.run(command.Line, channel)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func (g *GitSSH) run(line string, channel ssh.Channel) uint32 {
	path, ok := strings.CutPrefix(line, "git-upload-pack '")
	path, closed := strings.CutSuffix(path, "'")
	if !ok || !closed || strings.Contains(path, "'") || !filepath.IsLocal(strings.TrimPrefix(path, "/")) {
		fmt.Fprintf(channel.Stderr(), "fatal: unrecognized command '%s'\n", line)
		return 128
	}
	dir := filepath.Join(g.git.dir, path)
	if _, err := os.Stat(dir); err != nil {
		fmt.Fprintf(channel.Stderr(), "fatal: '%s' does not appear to be a git repository\n", path)
		return 128
	}
	cmd := exec.Command("git", "upload-pack", "--strict", dir)
	cmd.Env = gitEnv(g.git.dir)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	if err := cmd.Start(); err != nil {
		return 1
	}
	// Not cmd.Stdin: Wait would wait for a client that says nothing more.
	go func() {
		_, _ = io.Copy(in, channel)
		_ = in.Close()
	}()
	if cmd.Wait() != nil {
		return 128
	}
	return 0
}
