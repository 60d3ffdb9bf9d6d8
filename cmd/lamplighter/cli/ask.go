// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ask asks a question on standard error and reads the answer. What is not a yes is a
// no, which is an error with the exit code of one, and so is an end without an
// answer: nobody was there. Without says what --yes does.
func ask(g *globals, question, without string) error {
	fmt.Fprintf(g.streams.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(g.streams.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			fmt.Fprintln(g.streams.Err)
			return fmt.Errorf("nothing was changed: nobody answers on standard input, and --yes %s without asking", without)
		}
	}
	fmt.Fprintf(g.streams.Err, "nothing was changed; --yes %s without asking\n", without)
	return exitCode(exitSignal)
}
