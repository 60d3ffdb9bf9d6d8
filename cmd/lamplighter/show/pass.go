// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// WritePass writes what a pass would do: the objects that are not as Git says,
// the pods that would be evicted, and a line of totals.
func WritePass(w io.Writer, plan reconcile.Plan) error {
	var (
		rows   [][]any
		counts = map[inventory.Action]int{}
	)
	for _, d := range plan.Objects.Decisions() {
		counts[d.Action]++
		if d.Action != inventory.Keep {
			message := originOf(d.Source).told(string(d.Action), string(d.Reason), messageAbout(d.ID, d.Message))
			rows = append(rows, []any{strings.ToLower(string(d.Action)), inventory.Format(d.ID), d.Reason, Time(d.Until), dash(message)})
		}
	}
	visits := 0
	for _, d := range plan.Rollout.Decisions {
		if d.Action == rollout.Evict {
			visits++
			rows = append(rows, []any{"evict", "Pod/" + d.Pod.Name.String(), d.Reason, none, "on " + d.Node})
		}
	}
	if len(rows) > 0 {
		if err := table(w, []any{"ACTION", "OBJECT", "REASON", "UNTIL", "MESSAGE"}, rows); err != nil {
			return err
		}
	}
	recreates := ""
	if n := counts[inventory.Recreate]; n > 0 {
		recreates = fmt.Sprintf("%d to re-create, ", n)
	}
	_, err := fmt.Fprintf(w, "%d to apply, %s%d to prune, %d held, %d refused, %d unchanged; %s to evict\n",
		counts[inventory.Apply], recreates, counts[inventory.Prune]+counts[inventory.Release], counts[inventory.Hold],
		counts[inventory.Refuse], counts[inventory.Keep], countOf(visits, "pod"))
	return err
}

// Touches says whether carrying out a plan would change anything but the
// instance's own record.
func Touches(plan reconcile.Plan) bool {
	return plan.Objects.Touches() || slices.ContainsFunc(plan.Rollout.Decisions, func(d rollout.Decision) bool {
		return d.Action == rollout.Evict
	})
}
