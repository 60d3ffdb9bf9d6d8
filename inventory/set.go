// SPDX-License-Identifier: Apache-2.0

package inventory

import "slices"

// Set is an inventory: the objects that an instance owns. It is a value that
// never changes; the zero Set is empty.
type Set struct {
	ids []ID // sorted by Compare, no duplicates
}

// NewSet returns the set of the given IDs, in any order.
func NewSet(ids ...ID) Set {
	sorted := slices.SortedFunc(slices.Values(ids), Compare)
	return Set{ids: slices.Compact(sorted)}
}

// IDs returns the members, sorted by [Compare]. The slice is the caller's.
func (s Set) IDs() []ID { return slices.Clone(s.ids) }

// Len is the number of members.
func (s Set) Len() int { return len(s.ids) }

// Contains reports whether id is a member.
func (s Set) Contains(id ID) bool {
	_, found := slices.BinarySearchFunc(s.ids, id, Compare)
	return found
}

// With returns the union of the set and ids.
func (s Set) With(ids ...ID) Set {
	if missing := slices.DeleteFunc(slices.Clone(ids), s.Contains); len(missing) > 0 {
		return NewSet(slices.Concat(s.ids, missing)...)
	}
	return s
}

// Without returns the set less ids.
func (s Set) Without(ids ...ID) Set {
	gone := make(map[ID]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	return Set{ids: slices.DeleteFunc(s.IDs(), func(id ID) bool { return gone[id] })}
}

// Equal reports whether both sets have the same members.
func (s Set) Equal(other Set) bool { return slices.Equal(s.ids, other.ids) }

// Settle returns the set after the outcomes of a pass. An entry leaves only
// when its deletion is confirmed or the object is let go; dropped earlier, an
// object whose deletion failed would be orphaned.
func (s Set) Settle(outcomes []Outcome) Set {
	var gone []ID
	for _, o := range outcomes {
		if o.Result == ResultPruned || o.Result == ResultReleased {
			gone = append(gone, o.ID)
		}
	}
	if len(gone) == 0 {
		return s
	}
	return s.Without(gone...)
}
