// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"lamplighter.dev/cmd/lamplighter/show"
)

// audience follows what `lamplighter status --watch` says.
type audience struct {
	cmd     *exec.Cmd
	changed chan struct{}

	mu     sync.Mutex
	status show.Status
	lamps  string
	err    error
}

func watch(_ context.Context, cmd *exec.Cmd) (*audience, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &audience{cmd: cmd, changed: make(chan struct{}, 1)}
	go func() {
		err := a.follow(out)
		if waitErr := cmd.Wait(); waitErr != nil {
			err = fmt.Errorf("lamplighter status: %w: %s", waitErr, stderr.String())
		}
		a.see(show.Status{}, err)
	}()
	return a, nil
}

func (a *audience) follow(out io.Reader) error {
	decoder := json.NewDecoder(out)
	for {
		var s show.Status
		if err := decoder.Decode(&s); err != nil {
			return err
		}
		a.see(s, nil)
	}
}

func (a *audience) see(s show.Status, err error) {
	a.mu.Lock()
	if err == nil {
		a.status = s
	}
	a.err = err
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *audience) leave() {
	if a != nil && a.cmd.Process != nil {
		_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}
}

// until waits until the status is as wanted. It shows the lamps as they change,
// and stops at once if a rule is seen broken.
func (a *audience) until(ctx context.Context, what string, rule func(show.Status) error, wanted func(show.Status) bool) (show.Status, error) {
	for {
		a.mu.Lock()
		s, err := a.status, a.err
		a.mu.Unlock()
		if err != nil && !errors.Is(err, io.EOF) {
			return s, err
		}
		a.showLamps(s)
		if rule != nil {
			if err := rule(s); err != nil {
				return s, err
			}
		}
		if wanted(s) {
			return s, nil
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return s, fmt.Errorf("waited for %s: %w", what, context.Cause(ctx))
		}
	}
}

// showLamps prints one line for each change: a lamp per node and policy.
func (a *audience) showLamps(s show.Status) {
	var lines []string
	for _, p := range s.Policies {
		var lamps []string
		for _, n := range s.Nodes {
			if n.Policy == p.Name {
				lamps = append(lamps, n.Lamp)
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s", p.Name, strings.Join(lamps, " ")))
	}
	line := "    " + strings.Join(lines, "    ")
	if len(lines) > 0 && line != a.lamps {
		a.lamps = line
		say("%s", line)
	}
}
