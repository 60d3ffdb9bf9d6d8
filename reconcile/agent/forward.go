// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"lamplighter.dev/reconcile"
)

// forward refuses commits that were not made on top of the one in force: who
// can push or stand in for the server could bring an old fault back otherwise.
// The zero value refuses none.
type forward struct {
	// descends answers whether the commit fetched last was made on top of
	// another.
	descends func(ctx context.Context, from string) (bool, error)
	// record answers what is in force.
	record func(ctx context.Context) (reconcile.State, error)
	// keptOut answers which commit the last pass has kept out of force, since
	// something in it cannot be applied; "" if none.
	keptOut func() string
}

// gitHash is the name of a commit. What a person applied from a working tree
// has another.
var gitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// backwardError says that a commit does not follow the one in force. That stays
// so, unlike other reasons.
type backwardError struct{ inForce string }

func (e backwardError) Error() string {
	return fmt.Sprintf("was not made on top of %s, which is in force: push a commit that is, or start the agent without --ff-only", short(e.inForce))
}

// remoteError says that the remote did not tell.
type remoteError struct{ err error }

func (e remoteError) Error() string { return e.err.Error() }
func (e remoteError) Unwrap() error { return e.err }

// check answers a backwardError, or why it cannot tell. What is in force is the
// newest fleet, unless it was kept out, or what is recorded.
func (f forward) check(ctx context.Context, newest *reconcile.Fleet) error {
	if f.descends == nil {
		return nil
	}
	var from string
	if newest != nil && newest.Commit.Hash != f.keptOut() {
		from = newest.Commit.Hash
	} else {
		state, err := f.record(ctx)
		if err != nil {
			return fmt.Errorf("what is in force: %w", err)
		}
		from = state.Record.Commit.Hash
	}
	if !gitHash.MatchString(from) {
		return nil // nothing yet, or nothing of Git
	}
	ok, err := f.descends(ctx, from)
	switch {
	case err != nil:
		return remoteError{err}
	case !ok:
		return backwardError{from}
	default:
		return nil
	}
}

// tellsAgain says whether a commit that did not follow another has to be looked at
// again: that one has turned out not to be in force.
func (f forward) tellsAgain(refused error) bool {
	backward, ok := errors.AsType[backwardError](refused)
	return ok && backward.inForce == f.keptOut()
}
