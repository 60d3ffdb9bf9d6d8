// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// WriteRemoval writes what would become of each object of an instance that ends,
// in the order in which it would be done, a warning for each DaemonSet that goes,
// and a line of totals.
func WriteRemoval(w io.Writer, obs reconcile.Observation, plan inventory.Plan) error {
	var (
		rows     [][]any
		warnings []string
		counts   = map[inventory.Action]int{}
	)
	pods := podsByDaemonSet(obs)
	for _, d := range slices.Concat(plan.Prunes...) {
		if d.Reason != inventory.Gone {
			counts[d.Action]++
		}
		reason := string(d.Reason)
		if d.Action == inventory.Prune {
			reason = none // it is the same for all
		}
		rows = append(rows, []any{lower(d.Action), inventory.Format(d.ID), reason, Time(d.Until), dash(removalMessage(d))})
		if n := pods[types.NamespacedName{Namespace: d.ID.Namespace, Name: d.ID.Name}]; n > 0 && ends(d) {
			warnings = append(warnings, fmt.Sprintf("WARNING  %s: %s end at once, on all nodes", inventory.Format(d.ID), countOf(n, "pod")))
		}
	}
	if len(rows) > 0 {
		if err := table(w, []any{"ACTION", "OBJECT", "REASON", "UNTIL", "MESSAGE"}, rows); err != nil {
			return err
		}
	}
	for _, warning := range warnings {
		fmt.Fprintln(w, warning)
	}
	_, err := fmt.Fprintf(w, "%d to delete, %d to leave in the cluster, %d held\n",
		counts[inventory.Prune], counts[inventory.Release], counts[inventory.Hold])
	return err
}

// ends says that the pods of a DaemonSet would end, now or in its window.
func ends(d inventory.Decision) bool {
	return d.ID.GroupKind.Kind == "DaemonSet" && d.ID.GroupKind.Group == "apps" &&
		(d.Action == inventory.Prune || d.Action == inventory.Hold && d.Reason != inventory.Terminating && d.Reason != inventory.Untracked)
}

// removalMessage says beside what was decided what goes with a namespace or a
// definition.
func removalMessage(d inventory.Decision) string {
	if d.Action == inventory.Prune && len(d.After) > 0 {
		switch d.ID.GroupKind.Kind {
		case "Namespace", "CustomResourceDefinition":
			return "with " + countOf(len(d.After), "object") + " of this list"
		}
	}
	return messageAbout(d.ID, d.Message)
}

func podsByDaemonSet(obs reconcile.Observation) map[types.NamespacedName]int {
	names := map[types.UID]types.NamespacedName{}
	for _, d := range obs.DaemonSets {
		names[d.UID] = d.Name
	}
	pods := map[types.NamespacedName]int{}
	for _, p := range obs.Pods {
		if name, known := names[p.Owner]; known && !p.Ended() {
			pods[name]++
		}
	}
	return pods
}

// Removed is what became of an instance that was to end.
type Removed struct {
	Instance string `json:"instance"` // its namespace and name
	// Objects are those that were deleted or left, in the order in which that was
	// done, then those that are still there.
	Objects []AppliedObject `json:"objects"`
	// Deleted are the instance's own objects that are gone with it: what it
	// remembered, and its Lease.
	Deleted []string `json:"deleted"`
	// Done says that nothing of it is left to remove.
	Done bool `json:"done"`
	// Problems are what is left to do that is not about one of the objects.
	Problems []string `json:"problems,omitempty"`
}

// NewRemoved sums the passes of a removal up.
func NewRemoved(instance inventory.Instance, reports []reconcile.Report) Removed {
	r := Removed{Instance: instance.Namespace + "/" + instance.Name, Objects: []AppliedObject{}, Deleted: []string{}}
	for i, report := range reports {
		decided := map[inventory.ID]inventory.Decision{}
		for _, d := range report.Plan.Objects.Decisions() {
			decided[d.ID] = d
		}
		for _, o := range report.Outcomes {
			if gone := o.Result == inventory.ResultPruned || o.Result == inventory.ResultReleased; gone || i == len(reports)-1 {
				r.Objects = append(r.Objects, removed(decided[o.ID], o))
			}
		}
	}
	if len(reports) > 0 {
		last := reports[len(reports)-1]
		for _, err := range []error{last.StillCordoned, last.StopErr} {
			if err != nil {
				r.Problems = append(r.Problems, strings.Split(err.Error(), "\n")...)
			}
		}
	}
	return r
}

// removed is what became of one object. One that did not exist is as good as
// deleted.
func removed(d inventory.Decision, o inventory.Outcome) AppliedObject {
	switch {
	case o.Result == inventory.ResultPruned, d.Reason == inventory.Gone:
		return AppliedObject{Object: inventory.Format(o.ID), Result: lower(inventory.ResultPruned)}
	case o.Result == inventory.ResultReleased && d.Action == inventory.Release, o.Result == inventory.ResultHeld:
		return notDone(d, o.Result)
	}
	object := AppliedObject{Object: inventory.Format(o.ID), Result: lower(o.Result)}
	if o.Err != nil {
		object.Message = messageAbout(o.ID, o.Err.Error())
	}
	return object
}

// WriteRemoved writes a line for each object, and what is left.
func WriteRemoved(w io.Writer, r Removed) error {
	var b strings.Builder
	counts := map[string]int{}
	for _, o := range r.Objects {
		counts[o.Result]++
		fmt.Fprintln(&b, line(o.Object+" "+o.Result, o.Reason, o.Until, o.Message))
	}
	for _, d := range r.Deleted {
		fmt.Fprintf(&b, "%s deleted\n", d)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	deleted, left := counts[lower(inventory.ResultPruned)], counts[lower(inventory.ResultReleased)]
	fmt.Fprintf(&b, "%d deleted, %d left in the cluster, %d still to go\n", deleted, left, len(r.Objects)-deleted-left)
	if r.Done {
		fmt.Fprintf(&b, "instance %s is gone\n", r.Instance)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
