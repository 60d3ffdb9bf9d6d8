// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lamplighter.dev/cmd/lamplighter/show"
)

// program is the binary under test, built once by the first test that runs it.
var program binary

type binary struct {
	once sync.Once
	dir  string
	err  error
}

func (b *binary) path(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "lamplighter-e2e-"); b.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", b.dir, "lamplighter.dev/cmd/lamplighter")
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, "lamplighter")
}

func (b *binary) remove() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // a leftover temporary folder is no test's failure
	}
}

// command is a command line of the binary for the instance.
func (w *world) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program.path(t), append(args, "--namespace", w.instance.Namespace, "--name", w.instance.Name)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	return cmd
}

// status is what `lamplighter status` says. That something has failed is an
// answer too.
func (w *world) status(t testing.TB) (show.Status, error) {
	t.Helper()
	var stderr strings.Builder
	cmd := w.command(t, "status", "-o", "json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		return show.Status{}, fmt.Errorf("status: %w: %s", err, &stderr)
	}
	var s show.Status
	return s, json.Unmarshal(out, &s)
}

// child is an agent in a process of its own.
type child struct {
	log  *log
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts the binary's agent. It is killed with the test, if it has not
// ended before.
func (w *world) spawn(t testing.TB, args ...string) *child {
	t.Helper()
	cmd := w.command(t, append([]string{"agent", "--git", w.repo.URL(), "--interval", "1s"}, args...)...)
	c := &child{log: &log{}, cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = c.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // ProcessState has what it says
	}()
	t.Cleanup(func() {
		c.kill(t)
		if t.Failed() {
			t.Logf("log of process %d:\n%s", cmd.Process.Pid, c.log)
		}
	})
	return c
}

// kill ends the process without its knowing.
func (c *child) kill(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGKILL)
}

// signal sends a signal, waits for the end of the process, and returns its exit
// code, -1 if the signal ended it.
func (c *child) signal(t testing.TB, s syscall.Signal) int {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-c.done:
	case <-time.After(stopTimeout):
		t.Fatalf("process %d still runs %s after %s", c.cmd.Process.Pid, stopTimeout, s)
	}
	return c.cmd.ProcessState.ExitCode()
}
