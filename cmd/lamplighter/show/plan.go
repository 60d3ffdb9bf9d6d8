// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// WritePlan writes what a pass would do: the objects that are not as Git says,
// the pods that would be evicted, and a line of totals.
func WritePlan(w io.Writer, plan reconcile.Plan) error {
	var (
		rows   [][]any
		counts = map[inventory.Action]int{}
	)
	for _, d := range plan.Objects.Decisions() {
		counts[d.Action]++
		if d.Action != inventory.Keep {
			rows = append(rows, []any{strings.ToLower(string(d.Action)), inventory.Format(d.ID), d.Reason, Time(d.Until), dash(d.Message)})
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
	_, err := fmt.Fprintf(w, "%d to apply, %d to prune, %d held, %d refused, %d unchanged; %d pods to evict\n",
		counts[inventory.Apply], counts[inventory.Prune]+counts[inventory.Release], counts[inventory.Hold],
		counts[inventory.Refuse], counts[inventory.Keep], visits)
	return err
}

// Outcome is what became of one object or eviction.
type Outcome struct {
	Object string `json:"object"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Outcomes lists what a pass did, without what it left as it was.
func Outcomes(report reconcile.Report) []Outcome {
	out := []Outcome{}
	for _, o := range report.Outcomes {
		if o.Result == inventory.ResultUnchanged || o.Result == inventory.ResultHeld {
			continue
		}
		out = append(out, Outcome{Object: inventory.Format(o.ID), Result: strings.ToLower(string(o.Result)), Error: errorWords(o.Err)})
	}
	for _, a := range report.Attempts {
		message := a.Message
		if a.Result == rollout.Sent {
			message = ""
		}
		out = append(out, Outcome{Object: "Pod/" + a.Decision.Pod.Name.String(), Result: strings.ToLower(string(a.Result)), Error: message})
	}
	return out
}

// WriteOutcomes writes a line for each outcome.
func WriteOutcomes(w io.Writer, outcomes []Outcome) error {
	for _, o := range outcomes {
		line := o.Object + " " + o.Result
		if o.Error != "" {
			line += ": " + o.Error
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func errorWords(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
