// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"

	"lamplighter.dev/reconcile/health"
)

// sort puts the candidates in order.
//
// Visits that are open go on before others start, those whose node is down
// first. Then come nodes that are down already, so that a new revision mends what
// the last one broke before it touches what works; then one domain after
// another, the oldest pods, and names. Where an eviction came to nothing before,
// the others go first, so that each gets its turn.
//
// Without a free slot the order of those that would start a visit does not
// matter, and they may be very many.
func (t *tour) sort(candidates []int, d *domains, free bool) {
	slices.SortFunc(candidates, func(a, b int) int {
		x, y := &t.stops[a], &t.stops[b]
		if !free && x.visit == nil && y.visit == nil {
			return cmp.Compare(a, b)
		}
		return x.before(y, d)
	})
}

// before orders the candidates. Their decisions are in order of names.
func (s *stop) before(o *stop, d *domains) int {
	if c := s.rank() - o.rank(); c != 0 {
		return c
	}
	if c := s.refused.Compare(o.refused); c != 0 {
		return c
	}
	if c := d.before(s.domain, o.domain); c != 0 {
		return c
	}
	if c := s.verdict.Pod.Created.Compare(o.verdict.Pod.Created); c != 0 {
		return c
	}
	return s.decision - o.decision
}

func (s *stop) rank() int {
	switch {
	case s.visit != nil && s.begun && s.down:
		return 0
	case s.visit != nil && s.begun:
		return 1
	case s.visit != nil:
		return 2
	case !s.refused.IsZero():
		return 5
	case s.verdict.State == health.OutdatedDown:
		return 3
	default:
		return 4
	}
}
