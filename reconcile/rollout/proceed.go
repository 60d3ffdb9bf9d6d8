// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// MaxProceed is how long a word to proceed may be in force.
const MaxProceed = 24 * time.Hour

// A Proceed overrides the windows and freezes of a policy for a time. Budgets,
// holds, pauses, halts and failures count as ever.
type Proceed struct {
	Policy string    `json:"policy"`
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"` // who said so, as the API server knows him
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

// inForce is false for one that was written for longer than may be.
func (p Proceed) inForce(now time.Time) bool {
	return !now.Before(p.Since) && now.Before(p.Until) && p.Until.Sub(p.Since) <= MaxProceed
}

// Proceed overrides the windows and freezes of a policy, in the place of what
// was said of it before.
func (l Ledger) Proceed(p Proceed) (Ledger, error) {
	if took := p.Until.Sub(p.Since); took <= 0 || took > MaxProceed {
		return l, fmt.Errorf("proceed for %s: say how long, %s at most", took, MaxProceed)
	}
	l, _ = l.EndProceed(p.Policy)
	l.Proceeds = append(l.Proceeds, p)
	slices.SortFunc(l.Proceeds, func(a, b Proceed) int { return cmp.Compare(a.Policy, b.Policy) })
	return l, nil
}

// EndProceed takes back what was said of a policy, and says whether there was
// anything.
func (l Ledger) EndProceed(policy string) (Ledger, bool) {
	before := len(l.Proceeds)
	l.Proceeds = slices.DeleteFunc(slices.Clone(l.Proceeds), func(p Proceed) bool { return p.Policy == policy })
	return l, len(l.Proceeds) < before
}

// Proceeding is the word to proceed that is in force for a policy; nil when
// none is.
func (l Ledger) Proceeding(policy string, now time.Time) *Proceed {
	for i := range l.Proceeds {
		if p := &l.Proceeds[i]; p.Policy == policy && p.inForce(now) {
			return p
		}
	}
	return nil
}

// keepProceeds drops those that have ended, and those of policies that are gone.
func (b *book) keepProceeds(names map[string]bool, now time.Time, a *alarm) {
	b.ledger.Proceeds = slices.DeleteFunc(b.ledger.Proceeds, func(p Proceed) bool { return !names[p.Policy] || !now.Before(p.Until) })
	for _, p := range b.ledger.Proceeds {
		a.at(p.Since)
		a.at(p.Until)
	}
}

// Unfreezes says that a freeze of everything does not hold a change back,
// because somebody has said to proceed: neither the DaemonSets of that policy,
// nor the objects of other kinds that their new templates may need. It goes on
// to hold what would be removed, and the DaemonSets of other policies.
func Unfreezes(c Change, r Rules, now time.Time) bool {
	if r.ClockProblem != "" {
		return false
	}
	if c.DaemonSet.Name == "" {
		return c.Kind != Delete && c.Kind != Recreate && slices.ContainsFunc(r.Policies.Upgrades, func(p policy.UpgradePolicy) bool {
			return r.Ledger.Proceeding(p.Name, now) != nil
		})
	}
	p, governed := r.Policies.For(c.DaemonSet)
	if !governed {
		var err error
		last := r.Ledger.Governed[c.DaemonSet.String()]
		if p, err = last.policy(r.Policies); last.Policy == "" || err != nil {
			return false
		}
	}
	return r.Ledger.Proceeding(p.Name, now) != nil
}
