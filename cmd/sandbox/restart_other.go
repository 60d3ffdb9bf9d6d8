// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os"

// notifyRestart does nothing: there is no signal that asks for it here.
func notifyRestart(chan<- os.Signal) {}
