// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testkit

import "syscall"

// dieWithParent shields a child from the terminal's Ctrl-C, which go test
// handles. Only Linux can also tie its life to its parent's.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
