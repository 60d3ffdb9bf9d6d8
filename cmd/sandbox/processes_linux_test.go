// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestSignalStopsEveryChild(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			s := startSandbox(t, "--nodes=1")
			kids := childrenOf(t, s.cmd.Process.Pid)
			if got, want := len(kids), 5; got != want {
				t.Fatalf("children: got %d, want %d", got, want)
			}
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("got %v, want exit code 0; stderr:\n%s", err, s.complaints)
			}
			for pid, name := range kids {
				if alive(pid) {
					t.Errorf("%s is alive, want it gone", name)
				}
			}
		})
	}
}

// The API server is another process then, and has what it had; the others go on.
func TestSignalRestartsTheAPIServer(t *testing.T) {
	s := startSandbox(t, "--nodes=1")
	before := childrenOf(t, s.cmd.Process.Pid)
	s.run(t, daemonSet("kept", "example.com/agent:v1"))
	if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		var gone []string
		for pid, name := range before {
			if !alive(pid) {
				gone = append(gone, name)
			}
		}
		if !slices.Equal(gone, []string{roleAPIServer}) {
			return fmt.Errorf("gone are %v, want the API server", gone)
		}
		return nil
	})
	s.waitPods(t, "kept", 1, isReady)
	if kids := childrenOf(t, s.cmd.Process.Pid); len(kids) != len(before) {
		t.Errorf("children: got %v, want as many as %v", kids, before)
	}
}

func TestKilledSupervisorTakesItsChildrenAlong(t *testing.T) {
	s := startSandbox(t, "--nodes=1")
	kids := childrenOf(t, s.cmd.Process.Pid)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		for pid, name := range kids {
			if alive(pid) {
				return fmt.Errorf("%s is alive", name)
			}
		}
		return nil
	})
}

func TestDeathOfAChildStopsTheSandbox(t *testing.T) {
	s := startSandbox(t, "--nodes=1")
	kids := childrenOf(t, s.cmd.Process.Pid)
	for pid, name := range kids {
		if name == roleScheduler {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.cmd.Wait(); err == nil {
		t.Error("got exit code 0, want a failure")
	}
	want := "sandbox: kube-scheduler ended early (signal: killed); its last lines:\n"
	if got := s.complaints.String(); !strings.HasPrefix(got, want) {
		t.Errorf("stderr: got %q, want it to start with %q", got, want)
	}
	for pid, name := range kids {
		if alive(pid) {
			t.Errorf("%s is alive, want it gone", name)
		}
	}
}

// childrenOf maps the process IDs of a supervisor's children to their roles.
func childrenOf(t *testing.T, parent int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[int]string{}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || stat(pid).parent != parent {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil {
			t.Fatal(err)
		}
		roles[pid] = strings.Split(string(line), "\x00")[1]
	}
	return roles
}

// alive is false for a zombie: it runs no more, whoever has yet to collect it.
func alive(pid int) bool {
	return !slices.Contains([]string{"", "Z", "X"}, stat(pid).state)
}

type processStat struct {
	state  string // empty when there is no such process
	parent int
}

func stat(pid int) processStat {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return processStat{}
	}
	_, rest, _ := strings.Cut(string(content), ") ") // after the command's name
	var s processStat
	_, _ = fmt.Sscan(rest, &s.state, &s.parent) // a process that is gone has none
	return s
}
