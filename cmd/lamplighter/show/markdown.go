// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
)

// MarkdownMark is the first line of a plan in Markdown. Who posts it finds the
// comment of an earlier run by it.
const MarkdownMark = "<!-- lamplighter plan -->"

// WriteMarkdown writes a plan as Markdown, for a comment on a pull request. With
// nodes, the list of all visits is folded away.
func WriteMarkdown(w io.Writer, p Plan, nodes bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### Plan for `%s`\n\n%s\n", MarkdownMark, p.Instance, p.Changes.words())
	if p.Snapshot != nil {
		fmt.Fprintf(&b, "\nMade at %s from a snapshot of %s.\n", p.At, p.Snapshot.Taken)
		for _, u := range p.Snapshot.Unknown {
			fmt.Fprintf(&b, "- not known: %s\n", escape(u))
		}
	}
	if p.Refused != "" {
		fmt.Fprintf(&b, "\n**%s**\n", escape(p.Refused))
	}
	if len(p.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "- **warning**: %s\n", escape(warning))
	}
	if len(p.Objects) > 0 {
		b.WriteString("\n")
		markdownTable(&b, []string{"action", "object", "reason", "until", "nodes", "message"}, p.objectRows())
	}
	for _, policy := range p.Policies {
		policy.markdown(&b, nodes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p PlannedPolicy) markdown(b *strings.Builder, nodes bool) {
	fmt.Fprintf(b, "\n#### %s\n", escape(p.headline()))
	if len(p.Visits) > 0 {
		b.WriteString("\n")
		var rows [][]any
		for _, o := range p.openings() {
			for i, g := range o.waves {
				when, window := instant(o.start), o.window
				if i > 0 {
					when, window = "", ""
				}
				rows = append(rows, []any{when, window, g.wave, span(g.nodes)})
			}
		}
		markdownTable(b, []string{"from", "window", "wave", "nodes"}, rows)
	}
	if end := p.end(); end != "" {
		fmt.Fprintf(b, "\n**%s**\n", escape(end))
	}
	if warning := p.warned(); warning != "" {
		fmt.Fprintf(b, "\n- **warning**: %s\n", escape(warning))
	}
	if left := p.leftLines(); len(left) > 0 {
		b.WriteString("\n")
		for _, line := range left {
			fmt.Fprintf(b, "- %s\n", escape(line))
		}
	}
	if nodes && len(p.Visits) > 0 {
		b.WriteString("\n<details><summary>every visit</summary>\n\n")
		var rows [][]any
		for _, v := range p.Visits {
			rows = append(rows, []any{instant(v.start), v.Node, v.Wave, v.Window, strings.Join(v.DaemonSets, ", ")})
		}
		markdownTable(b, []string{"from", "node", "wave", "window", "DaemonSets"}, rows)
		b.WriteString("\n</details>\n")
	}
}

func markdownTable(b *strings.Builder, header []string, rows [][]any) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		var cells []string
		for _, cell := range row {
			text := fmt.Sprint(cell)
			if text == none {
				text = ""
			}
			cells = append(cells, escape(text))
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// escape keeps text from being read as Markdown or HTML, and on one line.
func escape(text string) string {
	return escaper.Replace(strings.Join(strings.Fields(text), " "))
}

var escaper = strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "@", "@\u200b")
