// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"lamplighter.dev/reconcile/rollout"
)

// Word is what somebody has said of a policy and is in force.
type Word struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // who, as the API server knows him
	Since  string `json:"since"`
	Until  string `json:"until,omitempty"` // when it ends by itself
}

func pauseWord(p *rollout.Pause) *Word {
	if p == nil {
		return nil
	}
	return &Word{Reason: p.Reason, By: p.By, Since: Time(p.Since)}
}

func proceedWord(p *rollout.Proceed) *Word {
	if p == nil {
		return nil
	}
	return &Word{Reason: p.Reason, By: p.By, Since: Time(p.Since), Until: Time(p.Until)}
}

func (w Word) String() string {
	said := w.Reason
	if w.By != "" {
		said += ", says " + w.By
	}
	if w.Until != "" {
		return fmt.Sprintf("until %s: %s", w.Until, said)
	}
	return fmt.Sprintf("since %s: %s", w.Since, said)
}

// writeWords writes what overrides the ordinary course: a clock that is not
// trusted, and what somebody has said.
func (s Status) writeWords(w io.Writer) {
	if s.Clock.TimeZones != "" {
		fmt.Fprintf(w, "time zones %s\n", s.Clock.TimeZones)
	}
	if s.Clock.Problem != "" {
		fmt.Fprintf(w, "CLOCK  windows stay shut: %s\n", s.Clock.Problem)
	}
	for _, p := range s.Policies {
		if p.Proceed != nil {
			fmt.Fprintf(w, "PROCEED  %s, whatever its windows and freezes say, %s\n", p.Name, p.Proceed)
		}
	}
	for _, p := range s.Policies {
		if p.Paused != nil {
			fmt.Fprintf(w, "PAUSED  %s, %s\n", p.Name, p.Paused)
		}
	}
}

// said are the policies of which it is said elsewhere why they do not get to
// their end.
func (s Status) said() map[string]bool {
	said := map[string]bool{}
	for _, p := range s.Policies {
		said[p.Name] = p.Halted || p.Paused != nil || s.Clock.Problem != ""
	}
	return said
}
