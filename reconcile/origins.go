// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"

	"lamplighter.dev/inventory"
)

// annotate adds to changes what the fleet knows of their objects: where they are in
// Git, and what of them nobody may show, be it in an answer of the API server.
func (f *Fleet) annotate(changes []inventory.Change) {
	for i := range changes {
		c := &changes[i]
		c.Source, c.Hidden = f.Sources[c.ID], f.Hidden[c.ID]
		c.Err = f.redacted(c.ID, c.Err)
	}
}

// redact takes out of outcomes what nobody may show.
func (f *Fleet) redact(outcomes []inventory.Outcome) {
	for i := range outcomes {
		outcomes[i].Err = f.redacted(outcomes[i].ID, outcomes[i].Err)
	}
}

// redacted is an error about an object without what is encrypted in Git. Conflicts
// name fields and managers only.
func (f *Fleet) redacted(id inventory.ID, err error) error {
	if err == nil || f.Redact == nil || len(f.Hidden[id]) == 0 {
		return err
	}
	if _, conflict := errors.AsType[*inventory.ConflictError](err); conflict {
		return err
	}
	text := f.Redact(err.Error())
	if _, rejected := errors.AsType[*inventory.RejectedError](err); rejected {
		return &inventory.RejectedError{Message: text}
	}
	return errors.New(text)
}
