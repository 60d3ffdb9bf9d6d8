// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"lamplighter.dev/reconcile/rollout"
)

// ErrDeposed says that another process has begun to lead the instance. Nothing
// that is decided here may be done any more.
var ErrDeposed = errors.New("another process leads")

// lead makes sure that the pass is one of this process's term. The first one with
// something to do begins it: the record of its intent says so, and with that a
// leader of before, who may not know it yet, can record nothing more.
func (r *Reconciler) lead(obs *Observation) error {
	l, leads := obs.State.Ledger.Lead(r.opts.Identity, r.term)
	if !leads {
		return fmt.Errorf("%w: %s", ErrDeposed, l.Term.Leader)
	}
	obs.State.Ledger = l
	return nil
}

// isIdle says that a pass needs no term, since it does nothing, records nothing,
// and waits for no visit.
func isIdle(before, intent State, plan Plan) (bool, error) {
	acts := slices.ContainsFunc(plan.Rollout.Decisions, func(d rollout.Decision) bool { return d.Action == rollout.Evict || d.Action == rollout.Drain })
	if acts || plan.Objects.Touches() || len(plan.Rollout.Jobs)+len(plan.Rollout.Uncordons)+len(intent.Ledger.Visits) > 0 {
		return false, nil
	}
	intent.Ledger.Term = before.Ledger.Term
	if before.equals(intent) {
		return true, nil
	}
	if !before.Inventory.Equal(intent.Inventory) {
		return false, nil
	}
	was, err := json.Marshal([]any{before.Ledger, before.Record})
	if err != nil {
		return false, err
	}
	is, err := json.Marshal([]any{intent.Ledger, intent.Record})
	return bytes.Equal(was, is), err
}
