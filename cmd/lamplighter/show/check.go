// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/check"
)

// Checked is what checking a fleet found.
type Checked struct {
	Findings []check.Finding `json:"findings"`
	Errors   int             `json:"errors"`
	Warnings int             `json:"warnings"`
	Infos    int             `json:"infos"`
	// Ignored findings are silenced by annotations, and not listed.
	Ignored int `json:"ignored"`
}

// NewChecked counts findings by level.
func NewChecked(r check.Report) Checked {
	c := Checked{Findings: r.Findings, Ignored: r.Ignored}
	for _, f := range r.Findings {
		switch f.Level {
		case check.Error:
			c.Errors++
		case check.Warning:
			c.Warnings++
		case check.Info:
			c.Infos++
		}
	}
	return c
}

// WriteChecked writes each finding as one line, what to do about each check once
// below them, and how many there are.
func WriteChecked(w io.Writer, c Checked) error {
	var b strings.Builder
	remedies := map[check.ID]string{}
	for _, f := range c.Findings {
		remedies[f.ID] = f.Remedy
		said := []string{fmt.Sprintf("%-7s %s", f.Level, f.ID)}
		for _, part := range []string{inventory.Source{File: f.File, Line: f.Line}.String(), f.Object, f.Field, f.Message} {
			if part != "" {
				said = append(said, part)
			}
		}
		b.WriteString(strings.Join(said, ": ") + "\n")
	}
	var ids []check.ID
	for id := range remedies {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if len(ids) > 0 {
		b.WriteString("\nWhat to do:\n")
	}
	for _, id := range ids {
		fmt.Fprintf(&b, "  %s: %s\n", id, remedies[id])
	}
	if len(ids) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s, %s, %s", countOf(c.Errors, "error"), countOf(c.Warnings, "warning"), countOf(c.Infos, "info"))
	if c.Ignored > 0 {
		fmt.Fprintf(&b, ", %d ignored", c.Ignored)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
