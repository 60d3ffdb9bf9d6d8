// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folder is the sandbox's place on disk: the kubeconfig and the logs in it are
// for people, what is under state is for the control plane alone.
type folder string

func (d folder) kubeconfig() string         { return filepath.Join(string(d), "kubeconfig") }
func (d folder) log(role string) string     { return filepath.Join(string(d), role+".log") }
func (d folder) state(name string) string   { return filepath.Join(string(d), "state", name) }
func (d folder) write(path, s string) error { return os.WriteFile(path, []byte(s), 0o600) }

// claim makes the folder ours alone and removes what an earlier sandbox left,
// so that every start is a fresh cluster. The lock lives as long as the file
// it returns is open, at the longest as long as the process.
func (d folder) claim() (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(string(d), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s is in use by another sandbox", string(d))
	}
	if err := os.RemoveAll(d.state("")); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(d.kubeconfig()); err != nil {
		return nil, err
	}
	return lock, os.MkdirAll(d.state(""), 0o700)
}
