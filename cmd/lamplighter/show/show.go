// SPDX-License-Identifier: Apache-2.0

// Package show turns what was decided into text and JSON: the answer of plan,
// status, diff and windows. It decides nothing and asks nobody; equal input
// gives equal output, byte for byte:
//
//	err := show.WriteDiff(os.Stdout, diff, show.Options{})
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"
)

// Options say how text is written.
type Options struct {
	// Color allows color. It never carries meaning of its own.
	Color bool
}

// none stands where a table has nothing to say.
const none = "-"

// Time writes an instant as all output does: RFC 3339 with its zone, or a dash
// for no instant.
func Time(t time.Time) string {
	if t.IsZero() {
		return none
	}
	return t.Format(time.RFC3339)
}

// JSON writes v, indented.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// YAML writes what [JSON] would, as YAML.
func YAML(w io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// table writes rows of equal length under a header, aligned.
func table(w io.Writer, header []any, rows [][]any) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]any{header}, rows...) {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, cell)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
