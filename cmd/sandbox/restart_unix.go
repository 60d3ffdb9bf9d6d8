// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyRestart relays the signal that asks for another API server.
func notifyRestart(restarts chan<- os.Signal) { signal.Notify(restarts, syscall.SIGUSR1) }
