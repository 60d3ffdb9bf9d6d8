// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"lamplighter.dev/reconcile/health"
)

// queue gives out the candidates in order.
//
// Visits that are open go on before others start, those whose node is down
// first. Then come nodes that are down already, so that a new revision mends what
// the last one broke before it touches what works; then one domain after
// another, the oldest pods, and names. Where an eviction came to nothing before,
// the others go first, so that each gets its turn.
//
// It is a heap, and not sorted: once no slot is free the order of those that would
// start a visit does not matter, and they may be very many.
type queue struct {
	stops   []stop
	heap    []int // places of stops; what comes first is on top
	domains *domains
}

func (t *tour) newQueue(candidates []int, d *domains) *queue {
	q := &queue{stops: t.stops, heap: candidates, domains: d}
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
	return q
}

func (q *queue) empty() bool { return len(q.heap) == 0 }

// next takes the first candidate or, when none but an open visit can have a slot
// and no visit is left, any.
func (q *queue) next(free bool) *stop {
	last := len(q.heap) - 1
	top := &q.stops[q.heap[0]]
	if !free && top.visit == nil {
		whoever := &q.stops[q.heap[last]]
		q.heap = q.heap[:last]
		return whoever
	}
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.sink(0)
	return top
}

// sink puts the candidate at a place of the heap below all that come before it.
func (q *queue) sink(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.stops[q.heap[child]].before(&q.stops[q.heap[first]], q.domains) < 0 {
				first = child
			}
		}
		if first == i {
			return
		}
		q.heap[i], q.heap[first] = q.heap[first], q.heap[i]
		i = first
	}
}

// before orders the candidates. Their decisions are in order of names.
func (s *stop) before(o *stop, d *domains) int {
	if c := s.rank() - o.rank(); c != 0 {
		return c
	}
	if c := s.refused.at().Compare(o.refused.at()); c != 0 {
		return c
	}
	if c := d.before(s.domain, o.domain); c != 0 {
		return c
	}
	if c := s.pod.Created.Compare(o.pod.Created); c != 0 {
		return c
	}
	return int(s.decision - o.decision)
}

func (s *stop) rank() int {
	switch {
	case s.visit != nil && s.begun && s.down:
		return 0
	case s.visit != nil && s.begun:
		return 1
	case s.visit != nil:
		return 2
	case s.refused != nil:
		return 5
	case s.state == health.OutdatedDown:
		return 3
	default:
		return 4
	}
}
