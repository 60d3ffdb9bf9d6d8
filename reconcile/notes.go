// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lamplighter.dev/inventory"
)

// ObjectNote is one object that is not as Git says, and why.
type ObjectNote struct {
	Object string `json:"object"`
	// File and Line are where Git has it, as far as it is known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Action is what was decided: Hold or Refuse, or Apply or Prune if that was
	// tried in vain.
	Action  string    `json:"action"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"`
	// Orphan says that it is no longer in Git.
	Orphan bool `json:"orphan,omitempty"`
	// Manager and Fields are who has changed what of an object that has drifted,
	// as far as it is known.
	Manager string   `json:"manager,omitempty"`
	Fields  []string `json:"fields,omitempty"`
}

// aboutTemplate says that a DaemonSet's pod template may be another than in Git.
func (n ObjectNote) aboutTemplate() bool {
	switch inventory.Reason(n.Reason) {
	case inventory.Reverted:
		return false
	case inventory.Drifted:
		return len(n.Fields) == 0 || slices.ContainsFunc(n.Fields, func(f string) bool { return f == ".spec" || strings.HasPrefix(f, ".spec.template") })
	}
	return true
}

// Failed says that it was tried in vain, or will not be tried before a person
// changes something. An orphan that nobody could look at only stays.
func (n ObjectNote) Failed() bool {
	if n.Action != string(inventory.Hold) {
		return true
	}
	switch inventory.Reason(n.Reason) {
	case inventory.Failing, inventory.Fighting, inventory.Reverted:
		return true
	case inventory.Unknown:
		return !n.Orphan
	}
	return false
}

// notes lists the objects that a plan leaves as they are though Git says
// something else.
func notes(plan inventory.Plan) []ObjectNote {
	left := func(d inventory.Decision) bool { return d.Action == inventory.Hold || d.Action == inventory.Refuse }
	var out []ObjectNote
	for _, d := range plan.Where(left) {
		out = append(out, ObjectNote{
			Object: inventory.Format(d.ID), File: d.Source.File, Line: d.Source.Line, Action: string(d.Action), Reason: string(d.Reason),
			Until: d.Until.UTC(), Message: brief(d.Message), Orphan: d.Object == nil,
			Manager: d.Manager, Fields: noted(d.Fields),
		})
	}
	return out
}

// troubles lists what was tried in vain. What was held or refused by the plan
// is noted already.
func troubles(plan inventory.Plan, outcomes []inventory.Outcome) []ObjectNote {
	tried := map[inventory.ID]inventory.Decision{}
	for d := range plan.All() {
		if d.Action.Acts() {
			tried[d.ID] = d
		}
	}
	var out []ObjectNote
	for _, o := range outcomes {
		if d, ok := tried[o.ID]; ok && o.Err != nil {
			out = append(out, ObjectNote{
				Object: inventory.Format(o.ID), File: d.Source.File, Line: d.Source.Line, Action: string(d.Action), Reason: string(o.Result), Message: brief(o.Err.Error()),
			})
		}
	}
	slices.SortFunc(out, func(a, b ObjectNote) int { return cmp.Compare(a.Object, b.Object) })
	return out
}

// The record has one ConfigMap, and room is wanted for one line of each object.
const (
	longestText   = 4 << 10
	longestFields = 4 << 10
)

// problemOf is an error in one line that fits into the record.
func problemOf(err error) string {
	return brief(strings.Join(strings.Fields(err.Error()), " "))
}

// brief is the beginning of a text that is too long for the record.
func brief(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "..."
}

// noted are the paths of changed fields, or if that is too much what they are in.
func noted(fields []string) []string {
	size := 0
	for _, f := range fields {
		size += len(f)
	}
	if size <= longestFields {
		return fields
	}
	var within []string
	for _, f := range fields {
		f = strings.TrimPrefix(f, ".")
		if end := strings.IndexAny(f, ".["); end >= 0 {
			f = f[:end]
		}
		within = append(within, brief("."+f))
	}
	slices.Sort(within)
	return slices.Compact(within)
}
