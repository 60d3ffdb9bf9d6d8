// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithParent gives a child its own process group, so that Ctrl-C reaches
// the supervisor alone, and its death when the supervisor is killed outright.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
