// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// holdPort binds a loopback port without listening on it, and never gives it
// back: the API server, told to share its port, then listens on it, and no other
// process can take it in between. Port 0 takes a free one.
func holdPort(port int) (int, error) {
	// Sharing works between strangers too: see that nobody is there yet.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, fmt.Errorf("hold port: %w", err)
	}
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("hold port: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, fmt.Errorf("hold port %d: %w", port, err)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, fmt.Errorf("hold port %d: %w", port, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("hold port %d: %w", port, err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("hold port %d: %w", port, err)
	}
	return addr.(*unix.SockaddrInet4).Port, nil
}
