// SPDX-License-Identifier: Apache-2.0

// Command sandbox runs a real Kubernetes control plane with simulated nodes on
// the loopback interface, from one binary and with nothing to download.
//
// Without a role as first argument it is the supervisor: it starts itself once
// per role (etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
// kwok), makes the nodes, and stays in the foreground:
//
//	sandbox --nodes 12 --zones 3 --dir .sandbox
//
// The signal SIGUSR1 restarts the API server, as an upgrade of a control plane does.
//
// It never reaches beyond 127.0.0.1 and leaves nothing running behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		if code, ok := runRole(os.Args[1], os.Args[2:]); ok {
			os.Exit(code)
		}
	}
	// Linux ends the children when the thread that started them ends; the
	// main thread lives as long as the process.
	runtime.LockOSThread()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := parseConfig(os.Args[1:])
	if err == nil {
		restarts := make(chan os.Signal, 1)
		notifyRestart(restarts)
		err = supervise(ctx, cfg, restarts, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		os.Exit(1)
	}
}
