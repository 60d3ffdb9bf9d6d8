// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"lamplighter.dev/inventory"
)

// stillDeleted marks objects as drifted that are on record as deleted by
// somebody, if the commit is still the one on record: a process that has not seen
// them go takes them for new.
func stillDeleted(changes []inventory.Change, record Record, commit Commit) []inventory.Change {
	if commit.Hash == "" || commit.Hash != record.Commit.Hash {
		return changes
	}
	deleted := map[string]bool{}
	for _, n := range record.Objects {
		if n.Reason == string(inventory.Drifted) && n.Action == string(inventory.Hold) {
			deleted[n.Object] = true
		}
	}
	if len(deleted) == 0 {
		return changes
	}
	out := slices.Clone(changes)
	for i, c := range out {
		if c.Kind == inventory.Create && deleted[inventory.Format(c.ID)] {
			out[i].Drifted = true
		}
	}
	return out
}
