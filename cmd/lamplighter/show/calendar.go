// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WritePlan writes a plan as text: what changes, then each policy's calendar,
// opening by opening or, with nodes, node by node.
func WritePlan(w io.Writer, p Plan, nodes bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "plan for %s at %s\n", p.Instance, p.At)
	if p.Snapshot != nil {
		fmt.Fprintf(&b, "from a snapshot of %s\n", p.Snapshot.Taken)
		for _, u := range p.Snapshot.Unknown {
			fmt.Fprintf(&b, "not known: %s\n", u)
		}
	}
	fmt.Fprintf(&b, "%s\n", p.Changes.words())
	if p.Refused != "" {
		fmt.Fprintf(&b, "REFUSED  %s\n", p.Refused)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	if len(p.Objects) > 0 {
		b.WriteString("\n")
		if err := table(&b, objectHeader, p.objectRows()); err != nil {
			return err
		}
	}
	for _, policy := range p.Policies {
		fmt.Fprintf(&b, "\n%s\n", policy.headline())
		for _, line := range policy.lines(nodes) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c ChangeCounts) words() string {
	recreated := ""
	if c.Recreated > 0 {
		recreated = fmt.Sprintf("%d to re-create, ", c.Recreated)
	}
	return fmt.Sprintf("%d to create, %d to configure, %s%d to prune, %d held, %d refused, %d unchanged",
		c.Created, c.Configured, recreated, c.Pruned, c.Held, c.Refused, c.Unchanged)
}

var objectHeader = []any{"ACTION", "OBJECT", "REASON", "UNTIL", "NODES", "MESSAGE"}

func (p Plan) objectRows() [][]any {
	var rows [][]any
	for _, o := range p.Objects {
		rows = append(rows, []any{strings.ToLower(o.Action), o.Object, o.Reason, dash(o.Until), dash(o.impactWords()), dash(o.told(o.Action, o.Reason, o.Message))})
	}
	return rows
}

func (p PlannedPolicy) headline() string {
	switch {
	case p.Nodes == 0:
		return p.Name + ": has no node yet"
	case len(p.Visits) == 0 && len(p.Left) == 0:
		return p.Name + ": " + countOf(p.Nodes, "node") + ", nothing to visit"
	}
	return fmt.Sprintf("%s: %s to visit, at most %d at once, %s each", p.Name, countOf(len(p.Visits), "node"), p.MaxUnavailable, p.VisitDuration)
}

// lines are the calendar, how it ends, and who is left out.
func (p PlannedPolicy) lines(nodes bool) []string {
	var lines []string
	if nodes {
		for _, v := range p.Visits {
			lines = append(lines, v.words())
		}
	} else {
		for _, o := range p.openings() {
			lines = append(lines, o.words())
		}
	}
	if end := p.end(); end != "" {
		lines = append(lines, end)
	}
	if warning := p.warned(); warning != "" {
		lines = append(lines, "warning: "+warning)
	}
	return append(lines, p.leftLines()...)
}

func (v PlannedVisit) words() string {
	words := []string{instant(v.start), v.Node}
	if v.Wave != "" {
		words = append(words, "wave "+v.Wave)
	}
	if v.Window != "" {
		words = append(words, "in "+v.Window)
	}
	words = append(words, strings.Join(v.DaemonSets, ", "))
	return strings.Join(words, "  ")
}

// opening is what is visited in one opening of a window.
type opening struct {
	window string
	start  time.Time // of the first visit
	waves  []waveGroup
}

// waveGroup are the nodes of one wave in an opening; without waves the wave has no name.
type waveGroup struct {
	wave  string
	nodes []string
}

// openings groups the visits by opening and wave, in the order of their starts.
func (p PlannedPolicy) openings() []opening {
	var out []opening
	at := map[[2]string]int{}
	for _, v := range p.Visits {
		key := [2]string{v.Window, v.Opens}
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, opening{window: v.Window, start: v.start})
		}
		out[i].add(v)
	}
	return out
}

func (o *opening) add(v PlannedVisit) {
	i := slices.IndexFunc(o.waves, func(g waveGroup) bool { return g.wave == v.Wave })
	if i < 0 {
		i = len(o.waves)
		o.waves = append(o.waves, waveGroup{wave: v.Wave})
	}
	o.waves[i].nodes = append(o.waves[i].nodes, v.Node)
}

func (o opening) words() string {
	return strings.TrimSpace(instant(o.start)+" "+o.window) + ": " + o.groups()
}

func (o opening) groups() string {
	var groups []string
	for _, g := range o.waves {
		groups = append(groups, strings.TrimSpace(g.wave+" "+span(g.nodes)))
	}
	return strings.Join(groups, "; ")
}

// span names nodes: each of a few, the first and last of many.
func span(nodes []string) string {
	const few = 3
	sorted := slices.Sorted(slices.Values(nodes))
	count := countOf(len(sorted), "node") + " "
	if len(sorted) <= few {
		return count + strings.Join(sorted, ", ")
	}
	return count + sorted[0] + ".." + sorted[len(sorted)-1]
}

// end says when the policy is done, or why it never is.
func (p PlannedPolicy) end() string {
	remain := countOf(len(p.Left), "node")
	done := ""
	if at, err := time.Parse(time.RFC3339, p.Done); err == nil {
		done = instant(at.In(p.zone))
		if p.Rough {
			done = "about " + done
		}
	}
	switch {
	case p.MoreWindows > 0:
		return fmt.Sprintf("cannot finish: %s, %s left over: needs %s", p.Never, remain, countOf(p.MoreWindows, "more window"))
	case len(p.Left) == 0 && done != "":
		return "done " + done
	case done != "":
		return fmt.Sprintf("done %s, but for %s", done, remain)
	case p.Never != "":
		return "never: " + p.Never
	}
	return ""
}

// warned is the warning where something is to be visited or is left over.
func (p PlannedPolicy) warned() string {
	if len(p.Visits) == 0 && len(p.Left) == 0 {
		return ""
	}
	return p.Warning
}

// leftLines are the nodes that are left out, by reason.
func (p PlannedPolicy) leftLines() []string {
	nodes := map[LeftNode][]string{}
	var reasons []LeftNode
	for _, n := range p.Left {
		why := LeftNode{Reason: n.Reason, Message: n.Message}
		if nodes[why] == nil {
			reasons = append(reasons, why)
		}
		nodes[why] = append(nodes[why], n.Node)
	}
	var lines []string
	for _, why := range reasons {
		lines = append(lines, line(span(nodes[why]), why.Reason, "", why.Message))
	}
	return lines
}

// instant is a time as people say it, in its own zone.
func instant(t time.Time) string {
	layout := "Mon 2006-01-02 15:04 MST"
	if t.Second() != 0 {
		layout = "Mon 2006-01-02 15:04:05 MST"
	}
	return t.Format(layout)
}
