// SPDX-License-Identifier: Apache-2.0

package show

import (
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// Origin is where in Git an object is, as far as it is known.
type Origin struct {
	File string `json:"file,omitempty"` // relative to the root of the repository
	Line int    `json:"line,omitempty"` // at which the object begins
}

func originOf(s inventory.Source) Origin { return Origin{File: s.File, Line: s.Line} }

// told is what text says of a decision beside its object: where the object is in
// Git, if somebody has to change it there.
func (o Origin) told(action, reason, message string) string {
	if action == string(inventory.Refuse) || reason == string(inventory.Unknown) {
		return o.beside(message)
	}
	return message
}

// beside is a message with the place in Git that it is about.
func (o Origin) beside(message string) string {
	at := inventory.Source(o).String()
	switch {
	case at == "":
		return message
	case message == "":
		return at
	}
	return message + " (" + at + ")"
}

// noteMessage is what text says of a note beside its object.
func noteMessage(n reconcile.ObjectNote) string {
	at := Origin{File: n.File, Line: n.Line}
	if n.Action != string(inventory.Hold) {
		return at.beside(n.Message)
	}
	return at.told(n.Action, n.Reason, n.Message)
}
