// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout bounds a sandbox's start, ten times the usual.
const startTimeout = 2 * time.Minute

// Options shape the one sandbox of a test package. A zero field takes the
// sandbox's own default.
type Options struct {
	Nodes         int
	Zones         int
	PodReadyAfter time.Duration
}

// shared is the sandbox of this test binary. It is the one thing that outlives
// a single test: a cluster for each would cost more than all the tests.
var shared struct {
	options *Options // nil outside Main
	start   sync.Once
	process *process
	cluster *Cluster
	err     error
}

// Main runs the tests of a package that uses Sandbox, ends the sandbox if one
// was started, and returns the exit code. Call it from TestMain.
func Main(m *testing.M, o Options) int {
	shared.options = &o
	code := m.Run()
	if shared.process != nil {
		shared.process.stop()
	}
	return code
}

// Sandbox returns the cluster that the tests of this package share, and starts
// it on first use. It fails the test when there is none.
func Sandbox(t testing.TB) *Cluster {
	t.Helper()
	if shared.options == nil {
		t.Fatal("testkit.Sandbox needs a TestMain that calls testkit.Main")
	}
	shared.start.Do(func() {
		shared.process, shared.err = startSandbox(*shared.options)
		if shared.err == nil {
			shared.cluster, shared.err = newCluster(shared.process.kubeconfig())
		}
	})
	if shared.err != nil {
		t.Fatalf("start sandbox: %v", shared.err)
	}
	return shared.cluster
}

// NewSandbox starts a cluster that the test has for itself, for what concerns all
// nodes or namespaces that have a name of their own. It ends with the test.
func NewSandbox(t testing.TB, o Options) *Cluster {
	t.Helper()
	p, err := startSandbox(o)
	if err != nil {
		t.Fatalf("start sandbox: %v", err)
	}
	t.Cleanup(p.stop)
	c, err := newCluster(p.kubeconfig())
	if err != nil {
		t.Fatalf("start sandbox: %v", err)
	}
	c.own = p
	return c
}

// process is a running sandbox and its folder.
type process struct {
	dir   string
	cmd   *exec.Cmd
	end   chan struct{} // closed by stop
	ended chan struct{} // closed when the process is gone
}

func (p *process) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

func startSandbox(o Options) (*process, error) {
	binary, err := sandboxBinary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lamplighter-sandbox-")
	if err != nil {
		return nil, err
	}
	p := &process{
		dir:   dir,
		cmd:   exec.Command(binary, append(o.flags(), "--dir="+dir)...),
		end:   make(chan struct{}),
		ended: make(chan struct{}),
	}
	if err := p.start(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (o Options) flags() []string {
	var flags []string
	if o.Nodes != 0 {
		flags = append(flags, "--nodes="+strconv.Itoa(o.Nodes))
	}
	if o.Zones != 0 {
		flags = append(flags, "--zones="+strconv.Itoa(o.Zones))
	}
	if o.PodReadyAfter != 0 {
		flags = append(flags, "--pod-ready-after="+o.PodReadyAfter.String())
	}
	return flags
}

// start returns when the sandbox says that it is ready.
func (p *process) start() error {
	var complaints strings.Builder
	p.cmd.Stderr = &complaints
	p.cmd.SysProcAttr = dieWithParent()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		close(p.ended)
		return err
	}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return err
	}

	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		ready <- lines.Scan() && strings.HasPrefix(lines.Text(), "ready ")
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	select {
	case ok := <-ready:
		if ok {
			return nil
		}
		p.stop()
		return errors.New(strings.TrimSpace(complaints.String()))
	case <-ctx.Done():
		return fmt.Errorf("not ready after %s; last lines of its logs:\n%s", startTimeout, p.lastLines())
	}
}

// own keeps the thread that started the process for as long as the process
// lives: Linux takes the end of that thread for the end of the parent.
func (p *process) own(started chan<- error) {
	defer close(p.ended)
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	<-p.end
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Wait() // how it ended no longer matters
	}
}

// stop ends the sandbox, waits for it, and removes its folder.
func (p *process) stop() {
	select {
	case <-p.end:
	default:
		close(p.end)
	}
	<-p.ended
	_ = os.RemoveAll(p.dir) // a leftover temporary folder is no test's failure
}

// lastLines are the ends of all the sandbox's logs.
func (p *process) lastLines() string {
	logs, _ := filepath.Glob(filepath.Join(p.dir, "*.log")) // the pattern is well-formed
	var b strings.Builder
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			content = []byte(err.Error())
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(log), strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return b.String()
}
