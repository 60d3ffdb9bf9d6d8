// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"lamplighter.dev/reconcile/rollout"
)

// Paused is what pausing a policy did.
type Paused struct {
	Policy string `json:"policy"`
	Paused Word   `json:"paused"`
}

// NewPaused makes the answer of a pause.
func NewPaused(p rollout.Pause) Paused { return Paused{p.Policy, *pauseWord(&p)} }

// WritePaused writes it as one line.
func WritePaused(w io.Writer, p Paused) error {
	_, err := fmt.Fprintf(w, "policy %s paused: %s\n", p.Policy, p.Paused.Reason)
	return err
}

// Proceeding is what was said of a policy whose windows do not count for a time.
type Proceeding struct {
	Policy  string `json:"policy"`
	Proceed Word   `json:"proceed"`
}

// NewProceeding makes the answer of a word to proceed.
func NewProceeding(p rollout.Proceed) Proceeding { return Proceeding{p.Policy, *proceedWord(&p)} }

// WriteProceeding writes it as one line.
func WriteProceeding(w io.Writer, p Proceeding) error {
	_, err := fmt.Fprintf(w, "policy %s proceeds until %s, whatever its windows and freezes say: %s\n", p.Policy, p.Proceed.Until, p.Proceed.Reason)
	return err
}

// Ended is what taking back a word to proceed did.
type Ended struct {
	Policy string `json:"policy"`
	Ended  bool   `json:"ended"` // there was one
}

// WriteEnded writes it as one line.
func WriteEnded(w io.Writer, e Ended) error {
	text := "policy %s: its windows and freezes count again\n"
	if !e.Ended {
		text = "policy %s: its windows and freezes count, nobody had said to proceed\n"
	}
	_, err := fmt.Fprintf(w, text, e.Policy)
	return err
}

// Held is what holding or releasing an object did.
type Held struct {
	Object  string `json:"object"`
	Reason  string `json:"reason,omitempty"` // of the hold; empty when released
	WasHeld bool   `json:"wasHeld"`
	Before  string `json:"before,omitempty"` // the reason then
}

// WriteHeld writes it as one line.
func WriteHeld(w io.Writer, h Held) error {
	var err error
	switch {
	case h.Reason != "" && h.WasHeld && h.Before != h.Reason:
		_, err = fmt.Fprintf(w, "%s held: %s (was: %s)\n", h.Object, h.Reason, h.Before)
	case h.Reason != "":
		_, err = fmt.Fprintf(w, "%s held: %s\n", h.Object, h.Reason)
	case h.WasHeld:
		_, err = fmt.Fprintf(w, "%s released\n", h.Object)
	default:
		_, err = fmt.Fprintf(w, "%s was not held\n", h.Object)
	}
	return err
}
