// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"time"

	"lamplighter.dev/inventory"
)

// RefusedError says why a fleet does not come into force: the API server, or
// what the objects say themselves, is against some of them.
type RefusedError struct {
	Commit Commit
	Faults []inventory.Fault // at least one
}

func (e *RefusedError) Error() string {
	why := e.Faults[0].Error()
	if n := len(e.Faults) - 1; n > 0 {
		why += fmt.Sprintf(" (and %d more)", n)
	}
	if e.Commit.Hash == "" {
		return "nothing applied: " + why
	}
	return fmt.Sprintf("commit %s not applied: %s", e.Commit.Hash[:min(len(e.Commit.Hash), 7)], why)
}

// Refused is a *[RefusedError], or nil when nothing keeps the fleet out of
// force.
func (obs Observation) Refused() error {
	if len(obs.Faults) == 0 {
		return nil
	}
	return &RefusedError{Commit: obs.Fleet.Commit, Faults: obs.Faults}
}

// KeptOut is the hash of the commit that does not come into force; empty if it does.
func (obs Observation) KeptOut() string {
	if len(obs.Faults) == 0 {
		return ""
	}
	return obs.Fleet.Commit.Hash
}

// faults are why a fleet does not come into force. One that is in force already
// stays so: what is wrong with an object now came from elsewhere, and holds
// that object alone.
func faults(obs Observation, partial bool) []inventory.Fault {
	record := obs.State.Record
	settled := obs.Fleet.Commit.Hash != "" && obs.Fleet.Commit.Hash == record.Commit.Hash
	if partial || settled {
		return nil
	}
	return inventory.Faults(obs.Changes, obs.Instance, obs.Adoption)
}

// trialInterval is how soon a fleet that was kept out of force is tried again:
// what was missing may have come, without a commit.
const trialInterval = 30 * time.Second

// nextTrial is when; zero for a fleet that is in force.
func nextTrial(obs Observation, now time.Time) time.Time {
	if len(obs.Faults) == 0 {
		return time.Time{}
	}
	return now.Add(trialInterval)
}
