// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// line is a connection to a server that can be cut. It begins cut.
type line struct {
	target   string
	listener net.Listener
	calls    sync.WaitGroup

	mu        sync.Mutex
	connected bool
	turned    int // connections refused
	open      map[net.Conn]bool
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{target: target, listener: listener, open: map[net.Conn]bool{}}
	l.calls.Go(l.serve)
	t.Cleanup(func() {
		_ = listener.Close() // serve ends with it
		l.cut()
		l.calls.Wait()
	})
	return l
}

func (l *line) addr() string { return l.listener.Addr().String() }

func (l *line) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.calls.Go(func() { l.carry(from) })
	}
}

// carry connects one caller, if the line is up.
func (l *line) carry(from net.Conn) {
	defer from.Close()
	if !l.begin(from) {
		return
	}
	to, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.begin(to) {
		return
	}
	defer l.end(from, to)
	l.calls.Go(func() {
		defer from.Close()
		_, _ = io.Copy(from, to) // either end may hang up
	})
	_, _ = io.Copy(to, from)
}

func (l *line) begin(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected {
		l.turned++
		return false
	}
	l.open[c] = true
	return true
}

func (l *line) end(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.open, c)
	}
}

func (l *line) connect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected = true
}

// cut drops what is connected, and refuses what comes.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected = false
	for c := range l.open {
		_ = c.Close() // the line is cut, whatever the ends think of it
	}
}

func (l *line) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turned
}
