// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// dieWithParent gives a child its own process group, so that Ctrl-C reaches
// the supervisor alone. Only Linux can also tie its life to its parent's.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
