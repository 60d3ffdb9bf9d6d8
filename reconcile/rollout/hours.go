// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// Hours say when a policy may disturb pods. Whoever asks that asks them: its
// calendar; somebody's word to proceed, which overrides windows and freezes for
// a time; and whether the clock that both are read by is to be trusted.
type Hours struct {
	moment  window.Moment
	proceed *Proceed      // in force; nil when none is
	after   window.Moment // when proceed ends
	now     time.Time
	doubt   string // "" when the clock is trusted, or of no matter
}

// NewHours are the hours of a policy at an instant. A clock problem is of no
// matter to a policy that is always open.
func NewHours(p policy.UpgradePolicy, l Ledger, clockProblem string, now time.Time) Hours {
	h := Hours{moment: p.Calendar.At(now), now: now}
	if !Timed(p) {
		return h
	}
	h.doubt = clockProblem
	if h.proceed = l.Proceeding(p.Name, now); h.proceed != nil {
		h.after = p.Calendar.At(h.proceed.Until)
	}
	return h
}

// Timed says that it depends on the time whether a policy may disturb pods.
func Timed(p policy.UpgradePolicy) bool { return !p.Calendar.Always || len(p.Calendar.Freezes) > 0 }

// Any is the state for some node; see [window.Moment.Any].
func (h Hours) Any() window.State {
	return h.adjust(h.moment.Any(), func() window.State { return h.after.Any() })
}

// For is the state for a node with these labels.
func (h Hours) For(node labels.Set) window.State {
	return h.adjust(h.moment.For(node), func() window.State { return h.after.For(node) })
}

// fits looks for an opening for a node with these labels that is as long as that,
// by the calendar alone.
func (h Hours) fits(node labels.Set, length time.Duration) window.Fit {
	return h.moment.Fits(node, length)
}

func (h Hours) adjust(s window.State, after func() window.State) window.State {
	switch {
	case h.doubt != "":
		return window.Doubted(h.doubt)
	case h.proceed != nil:
		return after().KeptOpen(h.now, "proceed")
	default:
		return s
	}
}
