// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"time"

	"lamplighter.dev/inventory"
)

// More than maxCorrections of one object within fightSpan is a fight: somebody
// undoes each of them. It is then left alone for fightSpan, next time for twice
// as long, up to lastRetry. An object that stayed as it was for fightOver has
// no fight any more.
const (
	maxCorrections = 5
	fightSpan      = time.Minute
	fightOver      = 15 * time.Minute
)

// fights remembers which objects were corrected lately.
type fights map[inventory.ID]fight

type fight struct {
	corrections []time.Time // of the last fightSpan
	wait        time.Duration
	Retry
}

// note takes the corrections of a pass.
func (f fights) note(plan inventory.Plan, outcomes []inventory.Outcome, now time.Time) {
	corrections := map[inventory.ID]string{}
	for d := range plan.All() {
		switch {
		case d.Action == inventory.Recreate: // something may change the field as it is created
			corrections[d.ID] = d.Message
		case d.Action == inventory.Apply && d.Drifted:
			corrections[d.ID] = cmp.Or(d.Message, "changed by somebody")
		}
	}
	for _, o := range outcomes {
		done := o.Err == nil || o.Result == inventory.ResultDeleting // it is created by a later pass
		if who, corrected := corrections[o.ID]; corrected && done {
			f[o.ID] = f[o.ID].correct(who, now)
		}
	}
	for id, c := range f {
		if now.Sub(c.last()) > fightOver && now.After(c.At) {
			delete(f, id)
		}
	}
}

func (c fight) correct(who string, now time.Time) fight {
	recent := []time.Time{}
	for _, t := range c.corrections {
		if now.Sub(t) < fightSpan {
			recent = append(recent, t)
		}
	}
	c.corrections = append(recent, now)
	if len(c.corrections) > maxCorrections {
		c.wait = min(max(2*c.wait, fightSpan), lastRetry)
		c.Retry = Retry{
			Reason: inventory.Fighting, At: now.Add(c.wait),
			Message: fmt.Sprintf("corrected %d times within %s and each time %s", len(c.corrections), fightSpan, who),
		}
		c.corrections = []time.Time{now}
	}
	return c
}

func (c fight) last() time.Time {
	if len(c.corrections) == 0 {
		return time.Time{}
	}
	return c.corrections[len(c.corrections)-1]
}

// due answers which objects are left alone for now.
func (f fights) due(changes []inventory.Change, now time.Time) map[inventory.ID]Retry {
	waiting := map[inventory.ID]Retry{}
	for _, c := range changes {
		if fight, ok := f[c.ID]; ok && (c.Drifted || c.Kind == inventory.Replace) && now.Before(fight.At) {
			waiting[c.ID] = fight.Retry
		}
	}
	return waiting
}
