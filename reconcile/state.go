// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"reflect"
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// State is what an instance remembers between passes. The zero State is that
// of an instance that has never run.
type State struct {
	Inventory inventory.Set
	Ledger    rollout.Ledger
	Record    Record
}

// equals reports whether two states surely are the same: of the same instant read and
// made, say, it is not sure.
func (s State) equals(o State) bool {
	return s.Inventory.Equal(o.Inventory) && reflect.DeepEqual(s.Ledger, o.Ledger) && reflect.DeepEqual(s.Record, o.Record)
}

// Record says what is in force, for those who look at the cluster without the
// repository, and for the agent itself while Git cannot be read.
type Record struct {
	Commit Commit    `json:"commit,omitzero"`
	Since  time.Time `json:"since,omitzero"` // when the commit came into force
	// Documents are the commit's policies, with the DaemonSets they select
	// written out. They are never sent to the cluster by themselves.
	Documents []policy.Document `json:"documents,omitempty"`
	// Problem says why the newest commit is not the one in force. Empty when
	// it is.
	Problem string `json:"problem,omitempty"`
	// Clock says by which clock the last pass went.
	Clock ClockNote `json:"clock,omitzero"`
	// Guarded is how many objects were owned when the guard against a mass deletion
	// began to hold; 0 when it does not.
	Guarded int `json:"guarded,omitempty"`
	// Answered is the newest request for a pass that a whole pass has followed,
	// after a look at Git.
	Answered time.Time `json:"answered,omitzero"`
	// Objects are those that are not as Git says, and why.
	Objects []ObjectNote `json:"objects,omitempty"`
}
