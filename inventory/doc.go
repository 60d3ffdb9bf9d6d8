// SPDX-License-Identifier: Apache-2.0

// Package inventory answers two questions about the objects of one instance:
// which of them are ours, and what is to be done with each. It gives every
// object that is rendered or owned exactly one [Decision], puts the decisions
// in the order in which they are safe to carry out, and says what the
// inventory has to hold before anything is done and what may leave it after.
//
// The package is pure: it reads no cluster, no clock and no file. A pass looks
// like this:
//
//	plan, err := inventory.New(inventory.Input{Instance: us, Owned: owned, Changes: changes, Orphans: orphans})
//	// save plan.Next, carry out plan.Steps and plan.Prunes, then
//	owned = plan.Next.Settle(outcomes)
//
// Identity, dependency order and the annotations people may set are those of
// cli-utils, so objects and inventories can move between the two.
package inventory
