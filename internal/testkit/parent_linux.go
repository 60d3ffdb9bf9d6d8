// SPDX-License-Identifier: Apache-2.0

package testkit

import "syscall"

// dieWithParent ends a child when the test binary is killed outright.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
