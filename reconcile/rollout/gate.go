// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// A Change is what would be sent to the API server about a DaemonSet object.
type Change struct {
	DaemonSet types.NamespacedName
	Kind      ChangeKind
}

// A ChangeKind says what a change does to pods.
type ChangeKind string

const (
	// Create: the DaemonSet does not exist.
	Create ChangeKind = "Create"
	// Update: nothing under spec.template changes.
	Update ChangeKind = "Update"
	// TemplateChange: pods that are created from now on are new.
	TemplateChange ChangeKind = "TemplateChange"
	// PlacementChange: the template changes, and with it the nodes on which pods
	// may run. The DaemonSet controller deletes those that may not at once.
	PlacementChange ChangeKind = "PlacementChange"
	// Recreate: all pods end, and others take their place.
	Recreate ChangeKind = "Recreate"
	// Delete: all pods end.
	Delete ChangeKind = "Delete"
)

// A Verdict says whether a change may be sent now.
type Verdict struct {
	Allowed bool
	Reason  Reason    // "" when allowed
	Until   time.Time // when it may be allowed; zero when that is not known
	Message string
}

// Rules are what a change of a DaemonSet is held against.
type Rules struct {
	Policies     policy.Set
	Ledger       Ledger
	ClockProblem string // as in [Observed]
}

// Gate says whether a change of a DaemonSet may be sent now. What disturbs pods
// waits for a window of the policy that governs the DaemonSet or, when it has
// left the fleet, that governed it last, and so does the template that comes with
// leaving its policy; one that no policy ever governed waits
// for nothing, and one of which that is not known waits for all policies. A freeze of scope Everything holds every change.
func Gate(c Change, r Rules, now time.Time) Verdict {
	if s := r.Policies.Everything().At(now).Any(); !s.Open && !Unfreezes(c, r, now) {
		return refused(s)
	}
	switch c.Kind {
	case Create, Update:
		return Verdict{Allowed: true}
	case TemplateChange, PlacementChange:
		return r.template(c, now)
	case Recreate:
		if v := r.template(Change{c.DaemonSet, PlacementChange}, now); !v.Allowed {
			return v
		}
		return r.deletion(c, now)
	case Delete:
		return r.deletion(c, now)
	default:
		return Verdict{Reason: WindowShut, Message: fmt.Sprintf("unknown kind of change %q", c.Kind)}
	}
}

func (r Rules) template(c Change, now time.Time) Verdict {
	p, governed := r.Policies.For(c.DaemonSet)
	if last := r.Ledger.Governed[c.DaemonSet.String()]; !governed && last.Policy != "" && !last.Left {
		var err error
		if p, err = last.policy(r.Policies); err != nil {
			return unreadable(last, err)
		}
		governed = true
	}
	if !governed {
		return Verdict{Allowed: true}
	}
	return r.templateOf(p, c.Kind, now)
}

// templateOf is what the governing policy says of a changed template.
func (r Rules) templateOf(p policy.UpgradePolicy, kind ChangeKind, now time.Time) Verdict {
	if kind == TemplateChange && p.Templates == policy.Immediately {
		return Verdict{Allowed: true}
	}
	for _, pause := range r.Ledger.Pauses {
		if pause.Policy == p.Name {
			return Verdict{Reason: Paused, Message: pause.Reason}
		}
	}
	return r.inWindow(p, now)
}

func (r Rules) deletion(c Change, now time.Time) Verdict {
	if p, ok := r.Policies.For(c.DaemonSet); ok {
		return r.inWindow(p, now)
	}
	last, known := r.Ledger.Governed[c.DaemonSet.String()]
	switch {
	case !known:
		return r.inEveryWindow(now)
	case last.Policy == "":
		return Verdict{Allowed: true}
	}
	p, err := last.policy(r.Policies)
	if err != nil {
		return unreadable(last, err)
	}
	return r.inWindow(p, now)
}

// policy is the one that governed last: as it is now or, when it has left the
// fleet, as it was.
func (g Governance) policy(set policy.Set) (policy.UpgradePolicy, error) {
	for _, p := range set.Upgrades {
		if p.Name == g.Policy {
			return p, nil
		}
	}
	return policy.ParseGovernance(g.Documents)
}

func unreadable(g Governance, err error) Verdict {
	return Verdict{Reason: WindowShut, Message: fmt.Sprintf("policy %s governed it last, and its windows cannot be read: %v", g.Policy, err)}
}

// inEveryWindow is for a DaemonSet of which it is not known who governed it
// last: it may have been any policy, so all of them must be open at once.
// Without any policy nobody has asked for windows.
func (r Rules) inEveryWindow(now time.Time) Verdict {
	verdict := Verdict{Allowed: true}
	for _, p := range r.Policies.Upgrades {
		v := r.inWindow(p, now)
		if v.Allowed {
			continue
		}
		v.Message = fmt.Sprintf("it is not on record which policy governed it last, and policy %s waits: %s", p.Name, v.Message)
		if verdict.Allowed || later(v.Until, verdict.Until) {
			verdict = v
		}
	}
	return verdict
}

// later says that one instant is after another; zero is never.
func later(a, b time.Time) bool {
	return !b.IsZero() && (a.IsZero() || a.After(b))
}

func (r Rules) inWindow(p policy.UpgradePolicy, now time.Time) Verdict {
	s := NewHours(p, r.Ledger, r.ClockProblem, now).Any()
	if !s.Open {
		return refused(s)
	}
	return Verdict{Allowed: true}
}

func refused(s window.State) Verdict {
	h := shut(s)
	return Verdict{Reason: h.reason, Until: h.until, Message: h.message}
}
