// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// slots counts the visits of a tour against what may be open at once: in one
// wave the wave's maxUnavailable, and in all of them that or the policy's,
// whichever is more, so that what an earlier commit has left open in a late wave
// does not keep a small first one from mending it.
type slots struct {
	policy int
	waves  []waveSlots
	all    held
	stuck  *stuckVisits // in all waves
}

type waveSlots struct {
	held
	most  int
	stuck *stuckVisits
	spent counted
}

// held counts visits, and of them those whose node is out of service right now, or may be.
// There are more visits than slots after a ledger was lost or the number was
// lowered; then those whose node is up wait between two DaemonSets.
type held struct{ visits, down int }

func (h *held) take(s *stop) {
	h.down += one(s.visit == nil || !s.out())
	h.visits += one(s.visit == nil)
}

func (t *tour) newSlots() *slots {
	l := &slots{policy: t.policy.MaxUnavailableOf(t.wanted), waves: make([]waveSlots, len(t.waves)), stuck: &t.stuck}
	for i := range t.waves {
		l.waves[i].most, l.waves[i].stuck = t.waves[i].slots(), &t.waves[i].visits
	}
	for i := range t.stops {
		if s := &t.stops[i]; s.visit != nil {
			for _, h := range []*held{&l.all, &l.waves[s.wave].held} {
				h.visits++
				h.down += one(s.out())
			}
		}
	}
	return l
}

// free says that a visit may start somewhere.
func (l *slots) free() bool {
	most := l.policy
	for i := range l.waves {
		most = max(most, l.waves[i].most)
	}
	return l.all.visits < most
}

// hold keeps a visit from starting without a slot. One that is open and whose
// node is up goes on only if no more nodes are down than may be.
func (l *slots) hold(s *stop) hold {
	w := &l.waves[s.wave]
	used, all, most := w.visits, l.all.visits, max(w.most, l.policy)
	words := "%d of at most %d nodes are visited"
	switch {
	case s.visit != nil && s.down:
		return hold{}
	case s.visit != nil:
		own := one(s.out())
		used, all, words = w.down-own, l.all.down-own, "%d of at most %d visited nodes are down"
	}
	switch {
	case used >= w.most:
		return hold{action: Hold, reason: BudgetSpent, message: w.spent.of([2]int{used, w.most}, func() string {
			return fmt.Sprintf(words, used, w.most) + w.stuck.see(w.most)
		})}
	case all >= most:
		return hold{action: Hold, reason: BudgetSpent, message: w.spent.of([2]int{all, -most}, func() string {
			return fmt.Sprintf(words, all, most) + ", in all waves" + l.stuck.see(most)
		})}
	default:
		return hold{}
	}
}

func (l *slots) take(s *stop) {
	l.all.take(s)
	l.waves[s.wave].take(s)
	if s.visit == nil {
		l.stuck.others++
		l.waves[s.wave].stuck.others++
	}
}

// visits counts the slots that are held.
func (t *tour) visits() int {
	n := 0
	for i := range t.stops {
		n += one(t.stops[i].visit != nil)
	}
	return n
}

// mostVisits is how many visits may be open while the first wave that is not
// done has its turn.
func (t *tour) mostVisits() int {
	return max(t.waves[min(t.gate, len(t.waves)-1)].slots(), t.policy.MaxUnavailableOf(t.wanted))
}

// slots is how many visits may be open at once in the wave. Of its nodes, one that
// is not Ready or has a new taint still counts while its pod is there, so that
// trouble does not lower the number that a percentage is of.
func (w *wave) slots() int { return w.MaxUnavailableOf(w.nodes) }
