// SPDX-License-Identifier: Apache-2.0

package window

import "time"

// KeptOpen is what a calendar says at an earlier instant, now, while somebody
// keeps it open until the instant of s, whatever its windows and freezes say. If
// it is open by itself then, it goes on being so.
func (s State) KeptOpen(now time.Time, by string) State {
	until := utc(s.now)
	o := State{Open: true, Close: until, NextOpen: s.NextOpen, ValidUntil: until, By: by, now: now, kept: until}
	if s.Open {
		o.Close = s.Close
	}
	return o
}

// Doubted is the state of a calendar that is read by a clock which is not to be
// trusted: shut, without a time at which it would open.
func Doubted(why string) State { return State{Doubt: why} }

// explainKept says until when somebody keeps a calendar open.
func (s State) explainKept() string {
	p := printer{now: s.now, loc: time.UTC}
	return "kept open by " + s.By + " until " + p.time(s.kept)
}
