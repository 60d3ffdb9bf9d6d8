// SPDX-License-Identifier: Apache-2.0

// Command testsum reads the events of "go test -json" on standard input and
// says how the tests went: one line per package, the whole output of what
// failed, and the totals as last line.
//
//	go test -json ./... | testsum
//
// Nothing passes unseen: it ends with 1 if a test or a package failed, if a
// test was skipped, and if there was no test at all. A shell whose go test
// ended with an error says so with one more event, in case go had none to send:
//
//	{"Action":"exit","Package":"the module"}
package main

import (
	"fmt"
	"os"
)

func main() {
	t, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testsum: %v\n", err)
		os.Exit(2)
	}
	t.print(os.Stdout)
	if !t.ok() {
		os.Exit(1)
	}
}
