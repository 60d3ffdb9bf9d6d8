// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// NotAfter is the ledger without instants of the future, which a clock leaves behind
// that was ahead and has been set right. They become now: then everything waits for
// as long as it would have, and not until the wrong clock's time has come. What the
// clocks of two leaders may differ by is left as it is, and so is a word to proceed,
// which says itself when it holds.
func (l Ledger) NotAfter(now time.Time) Ledger {
	c := clamp{now: now, limit: now.Add(doubt)}
	next := l.clone()
	for i := range next.Visits {
		c.visit(&next.Visits[i])
	}
	for i := range next.Failures {
		c.set(&next.Failures[i].At)
	}
	for i := range next.Refusals {
		c.set(&next.Refusals[i].At)
	}
	for i := range next.Pauses {
		c.set(&next.Pauses[i].Since)
	}
	for i := range next.Objections {
		c.set(&next.Objections[i].Since)
	}
	for i := range next.Waves {
		c.set(&next.Waves[i].Settled)
	}
	for i := range next.Reversals {
		c.set(&next.Reversals[i].Since)
	}
	for name, g := range next.Governed {
		c.set(&g.Since, &g.Before)
		next.Governed[name] = g
	}
	c.set(&next.Term.Since, &next.Term.LostBefore)
	if !c.changed {
		return l
	}
	return next
}

// clamp sets instants to now that are beyond the limit.
type clamp struct {
	now, limit time.Time
	changed    bool
}

func (c *clamp) visit(v *Visit) {
	c.set(&v.Started, &v.Finished, &v.Drain.Since, &v.Drain.Done, &v.Drain.Decided)
	for i := range v.Jobs {
		c.set(&v.Jobs[i].Started, &v.Jobs[i].Ended)
	}
	for i := range v.Steps {
		s := &v.Steps[i]
		c.set(&s.Evicted, &s.Gone, &s.Replaced, &s.Settled)
	}
}

func (c *clamp) set(instants ...*time.Time) {
	for _, at := range instants {
		if at.After(c.limit) {
			*at, c.changed = c.now, true
		}
	}
}
