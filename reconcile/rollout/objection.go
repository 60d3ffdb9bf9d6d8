// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// An Objection is what spoke against evictions of a policy when it was asked
// last. It stays until the answer is yes, or the question is no longer asked.
type Objection struct {
	Policy    string    `json:"policy"`
	DaemonSet string    `json:"daemonSet,omitempty"` // whose pod the API server does not admit
	Revision  string    `json:"revision,omitempty"`  // of that DaemonSet
	Gate      string    `json:"gate,omitempty"`      // that is shut
	Message   string    `json:"message,omitempty"`
	Since     time.Time `json:"since"`
	Unknown   bool      `json:"unknown,omitzero"` // nobody has said no: there was no answer
}

// key is what an objection is about.
func (o Objection) key() Objection {
	return Objection{Policy: o.Policy, DaemonSet: o.DaemonSet, Revision: o.Revision, Gate: o.Gate}
}

// objection is what stands about something.
func (b *book) objection(about Objection) *Objection {
	i := slices.IndexFunc(b.ledger.Objections, func(o Objection) bool { return o.key() == about })
	if i < 0 {
		return nil
	}
	return &b.ledger.Objections[i]
}

// hear records what an answer says. That somebody cannot be asked any more does
// not take back what he has said.
func (b *book) hear(about Objection, a Answer) {
	switch a.Reply {
	case "":
		return
	case Yes:
		b.overrule(about)
		return
	}
	next := about
	next.Message, next.Unknown, next.Since = a.Message, a.Reply == Unknown, a.At
	o := b.objection(about)
	switch {
	case o == nil:
		b.ledger.Objections = append(b.ledger.Objections, next)
		slices.SortFunc(b.ledger.Objections, compareObjections)
	case next.Unknown && !o.Unknown:
	default:
		if o.Unknown == next.Unknown {
			next.Since = o.Since
		}
		*o = next
	}
}

// overrule drops an objection.
func (b *book) overrule(about Objection) {
	b.ledger.Objections = slices.DeleteFunc(b.ledger.Objections, func(o Objection) bool { return o.key() == about })
}

// keepObjections drops those of policies, gates, DaemonSets and revisions that are no
// longer in force.
func (b *book) keepObjections(f *fleet, policies []policy.UpgradePolicy) {
	b.ledger.Objections = slices.DeleteFunc(b.ledger.Objections, func(o Objection) bool {
		return !slices.ContainsFunc(policies, func(p policy.UpgradePolicy) bool {
			return p.Name == o.Policy && o.concerns(p, f)
		})
	})
}

func (o Objection) concerns(p policy.UpgradePolicy, f *fleet) bool {
	if o.Gate != "" {
		return slices.ContainsFunc(p.AllGates(), func(g policy.Gate) bool { return g.Name == o.Gate })
	}
	for _, name := range p.DaemonSets {
		if set, ok := f.bySet[name]; ok && f.sets[set].key == o.DaemonSet {
			return !f.sets[set].RevisionObserved || f.sets[set].Revision == o.Revision
		}
	}
	return false
}

func compareObjections(a, b Objection) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.DaemonSet, b.DaemonSet), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Gate, b.Gate))
}
