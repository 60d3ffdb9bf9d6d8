// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"

	"lamplighter.dev/cmd/lamplighter/show"
)

// printAnswer writes the answer of a command in the format that was asked for.
func printAnswer[T any](g *globals, answer T, text func(io.Writer, T) error) error {
	switch g.output {
	case formatJSON:
		return show.JSON(g.streams.Out, answer)
	case formatYAML:
		return show.YAML(g.streams.Out, answer)
	}
	return text(g.streams.Out, answer)
}
