// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
)

// children are the processes we started, and no others.
type children struct {
	dir     folder
	started map[string]*child // by role
	waits   sync.WaitGroup
	deaths  chan error // the first to die; nobody reads on
}

type child struct {
	cmd      *exec.Cmd
	replaced atomic.Bool // it is meant to die
	ended    chan struct{}
}

func newChildren(d folder) *children {
	return &children{dir: d, started: map[string]*child{}, deaths: make(chan error, 1)}
}

// start runs this same binary in the given role, with state as its working
// folder and its output in the role's log.
func (c *children) start(role string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	log, err := os.OpenFile(c.dir.log(role), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	defer log.Close()

	cmd := exec.Command(self, append([]string{role}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.dir.state(""), log, log, dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	k := &child{cmd: cmd, ended: make(chan struct{})}
	c.started[role] = k
	c.waits.Go(func() {
		_ = cmd.Wait() // ProcessState says how it ended
		close(k.ended)
		if k.replaced.Load() {
			return
		}
		select {
		case c.deaths <- fmt.Errorf("%s ended early (%v); its last lines:\n%s", role, cmd.ProcessState, c.lastLines(role)):
		default:
		}
	})
	return nil
}

// restart kills the child that has a role and starts it again. Like start, it is
// called by the thread that lives as long as the process.
func (c *children) restart(role string) error {
	k := c.started[role]
	k.replaced.Store(true)
	if err := k.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("restart %s: %w", role, err)
	}
	<-k.ended
	return c.start(role, k.cmd.Args[2:])
}

// stop ends every child and waits for it. They get no chance to tidy up: all
// they could tidy is thrown away at the next start.
func (c *children) stop() {
	for _, k := range c.started {
		_ = k.cmd.Process.Kill() // it may be gone already
	}
	c.waits.Wait()
}

// lastLines are what a person needs to see of a child that died.
func (c *children) lastLines(role string) string {
	out, err := os.ReadFile(c.dir.log(role))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
