// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ask asks a question on standard error and reads the answer. What is not a yes
// is a no.
func ask(g *globals, question string) (bool, error) {
	fmt.Fprintf(g.streams.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(g.streams.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	case "":
		fmt.Fprintln(g.streams.Err)
	}
	return false, nil
}
