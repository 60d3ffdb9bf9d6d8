// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

// The leader of before may send what he has recorded a moment after the next one
// was refused the same. Only when that is out of the question another node has the
// slot.
func TestRefusedEvictionOfAnEarlierTermKeepsItsSlotForAWhile(t *testing.T) {
	for _, test := range []struct {
		name    string
		visit   string
		decided int // in which term
		waits   time.Duration
	}{
		{"of this term", "", 2, 0},
		{"of this term, and not the first", "visit cni a cni:old>new(evicted=10s)", 2, 50 * time.Second},
		{"of the term before", "visit cni a cni:old>new(evicted=10s)", 1, time.Minute},
		{"of before there were terms", "visit cni a cni:old>new(evicted=10s)", 0, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := readScene(t, `
policy cni cni
daemonset cni new proven
node a cni=old
node b cni=old
`+test.visit)
			s.observed.Ledger.Term = Term{Number: 2, Leader: "second"}
			for i := range s.observed.Ledger.Visits {
				s.observed.Ledger.Visits[i].Steps[0].Term = test.decided
			}
			plan := New(s.observed, s.policies, s.now)
			if got := evicted(plan); got != "a" {
				t.Fatalf("evicts on %q, want on a again", got)
			}
			s.observed.Ledger = plan.Ledger
			for _, d := range plan.Decisions {
				s.observed.Ledger = s.observed.Ledger.Refuse(d, "budget", s.now)
			}
			for after := time.Duration(0); after < test.waits; after += 10 * time.Second {
				if got := evicted(New(s.observed, s.policies, s.now.Add(after))); got != "" {
					t.Errorf("evicts on %q %s later, want nothing", got, after)
				}
			}
			if got := evicted(New(s.observed, s.policies, s.now.Add(test.waits))); got != "b" {
				t.Errorf("evicts on %q %s later, want on b", got, test.waits)
			}
		})
	}
}

// The same goes for a drain: that a budget refuses what is to follow says nothing of
// what the leader of before does to the node.
func TestRefusedDrainOfAnEarlierTermKeepsItsSlotForAWhile(t *testing.T) {
	for _, test := range []struct {
		decided string
		want    map[time.Duration]string // drains, so long after the refusal
	}{
		{"10s/2", map[time.Duration]string{0: "b"}},
		{"10s/1", map[time.Duration]string{0: "", 19 * time.Second: "", 20 * time.Second: "b"}},
	} {
		s := readScene(t, "policy cni cni drain=10m\ndaemonset cni new proven\nnode a cni=old\nnode b cni=old\nterm 2 40s\nvisit cni a drain=1m draindecided="+test.decided)
		plan := New(s.observed, s.policies, s.now)
		if got := acted(plan, Drain); got != "a" {
			t.Fatalf("drains %q, want a", got)
		}
		s.observed.Ledger = plan.Ledger.Refuse(plan.Decisions[0], "budget", s.now)
		for after, want := range test.want {
			if got := acted(New(s.observed, s.policies, s.now.Add(after)), Drain); got != want {
				t.Errorf("decided %s: drains %q %s after the refusal, want %q", test.decided, got, after, want)
			}
		}
	}
}

// The drain goes on meanwhile, and whoever leads after that waits for this one, too.
func TestDrainIsInDoubtAgainInTheNextTerm(t *testing.T) {
	s := readScene(t, "policy cni cni drain=10m\ndaemonset cni new proven\nnode a cni=old\nterm 2 0s\nvisit cni a drain=1m draindecided=10s/1")
	l := &s.observed.Ledger
	for _, after := range []time.Duration{0, 59 * time.Second, 2 * time.Minute} {
		*l = New(s.observed, s.policies, s.now.Add(after)).Ledger
		if want := 1 + one(after >= time.Minute); l.Visits[0].Drain.Term != want {
			t.Errorf("%s later: the drain is of term %d, want %d", after, l.Visits[0].Drain.Term, want)
		}
		if late := s.now.Add(after).Sub(l.Visits[0].Drain.Decided); late > doubt/2 {
			t.Errorf("%s later: the drain was decided %s ago", after, late)
		}
	}
	*l, _ = l.Lead("third", Term{})
	s.observed.Nodes[0].Hold = "disk"
	for after, open := range map[time.Duration]int{0: 1, 59 * time.Second: 1, time.Minute: 0} {
		began := s.now.Add(2 * time.Minute)
		third := s.observed
		third.Ledger.Term.Since = began
		if got := len(New(third, s.policies, began.Add(after)).Ledger.Visits); got != open {
			t.Errorf("%s after the third leader has begun: %d visits, want %d", after, got, open)
		}
	}
}

// The clock of the leader before says nothing.
func TestDoubtsOfAnEarlierTermEndByTheClockOfThisOne(t *testing.T) {
	for _, evicted := range []string{"50h", "-50h"} {
		s := readScene(t, "policy cni cni\ndaemonset cni new proven\nnode a cni=old hold\nnode b cni=old\nvisit cni a cni:old>new(evicted="+evicted+")")
		l := &s.observed.Ledger
		l.Term, l.Visits[0].Steps[0].Term = Term{Number: 2}, 1
		for _, at := range []time.Duration{0, 59 * time.Second} {
			plan := New(s.observed, s.policies, s.now.Add(at))
			if *l = plan.Ledger; len(l.Visits) != 1 {
				t.Errorf("evicted %s ago: the visit is given up %s after the term began", evicted, at)
			}
			if plan.NextLook.IsZero() || plan.NextLook.After(s.now.Add(time.Minute)) {
				t.Errorf("evicted %s ago: looks again at %s", evicted, plan.NextLook)
			}
		}
		if *l = New(s.observed, s.policies, s.now.Add(time.Minute)).Ledger; len(l.Visits) != 1 || l.Visits[0].Node != "b" {
			t.Errorf("evicted %s ago: want only b visited, got %+v", evicted, l.Visits)
		}
	}
}

// evicted names the nodes on which a plan evicts.
func evicted(p Plan) string { return acted(p, Evict) }

func acted(p Plan, action Action) string {
	nodes := ""
	for _, d := range p.Decisions {
		if d.Action == action {
			nodes += d.Node
		}
	}
	return nodes
}

func TestLead(t *testing.T) {
	none, mine, theirs := Term{}, Term{Number: 3, Leader: "me"}, Term{Number: 4, Leader: "you"}
	for _, test := range []struct {
		name           string
		recorded, held Term
		want           Term
		leads          bool
	}{
		{"the first ever", none, none, Term{Number: 1, Leader: "me"}, true},
		{"one who begins", theirs, none, Term{Number: 5, Leader: "me"}, true},
		{"one whose term it is", mine, mine, mine, true},
		{"one who was deposed", theirs, mine, theirs, false},
		{"one who was deposed after the ledger was lost", Term{Number: 3, Leader: "you"}, mine, Term{Number: 3, Leader: "you"}, false},
		{"one whose ledger was lost", none, mine, Term{Number: 4, Leader: "me"}, true},
	} {
		l, leads := Ledger{Term: test.recorded}.Lead("me", test.held)
		if l.Term != test.want || leads != test.leads {
			t.Errorf("%s: got %+v, %t, want %+v, %t", test.name, l.Term, leads, test.want, test.leads)
		}
	}
}

// With the ledger it is forgotten, too, which evictions are on their way. Before they
// must have arrived nothing is evicted, and what they take is taken for visited.
func TestEvictionsThatALostLedgerHasForgottenKeepTheirSlots(t *testing.T) {
	const fleet = "policy cni cni\ndaemonset cni new\nnode b cni=old\n"
	s := readScene(t, "lost\n"+fleet+"node a cni=old")
	s.observed.Ledger.Term = Term{Number: 1}
	plan := New(s.observed, s.policies, s.now)
	if got := evicted(plan); got != "" {
		t.Fatalf("evicts on %q before anything is certain", got)
	}
	if at := s.now.Add(time.Minute); !plan.NextLook.Equal(at) {
		t.Errorf("looks again at %s, want %s", plan.NextLook, at)
	}
	taken := readScene(t, fleet+"node a cni=old(deleting=-10s)")
	taken.observed.Ledger = plan.Ledger
	taken.observed.Ledger, _ = taken.observed.Ledger.Lead("next", Term{}) // which has not seen the loss
	for _, after := range []time.Duration{10 * time.Second, time.Minute + 10*time.Second} {
		plan = New(taken.observed, taken.policies, s.now.Add(after))
		if got := evicted(plan); got != "" || len(plan.Ledger.Visits) != 1 || plan.Ledger.Visits[0].Node != "a" {
			t.Errorf("%s later: evicts on %q, visits %+v; want the node that is down visited", after, got, plan.Ledger.Visits)
		}
		taken.observed.Ledger = plan.Ledger
	}
	s.observed.Ledger = Ledger{Term: Term{Number: 1, Since: s.now}}
	if got := evicted(New(s.observed, s.policies, s.now.Add(time.Minute))); got != "a" {
		t.Errorf("evicts on %q when all is certain, want on a", got)
	}
}

// A new installation has lost nothing.
func TestFirstPodsWaitForNoLostLedger(t *testing.T) {
	s := readScene(t, "lost\npolicy cni cni\ndaemonset cni new\nnode a\nnode b")
	s.observed.Ledger.Term = Term{Number: 1}
	ledger := New(s.observed, s.policies, s.now).Ledger
	s = readScene(t, "policy cni cni\ndaemonset cni new\nnode a cni=old\nnode b cni=new(created=5m)")
	s.observed.Ledger = ledger
	if got := evicted(New(s.observed, s.policies, s.now.Add(time.Second))); got != "a" {
		t.Errorf("evicts on %q, want on a", got)
	}
}

// Each one-shot pass is a term of its own. What was lost before the first of them is
// certain after a while, however many there are since.
func TestLossIsOverInALaterTerm(t *testing.T) {
	s := readScene(t, "lost\npolicy cni cni\ndaemonset cni new\nnode a cni=old\nnode b cni=old")
	pass := func(after time.Duration) string {
		s.observed.Ledger, _ = s.observed.Ledger.Lead("apply", Term{})
		plan := New(s.observed, s.policies, s.now.Add(after))
		s.observed.Ledger = plan.Ledger
		return evicted(plan)
	}
	for _, after := range []time.Duration{0, 30 * time.Second, 90 * time.Second} {
		if got := pass(after); got != "" {
			t.Errorf("%s later: evicts on %q, want on none", after, got)
		}
	}
	if got := pass(2 * time.Minute); got != "a" {
		t.Errorf("two minutes later: evicts on %q, want on a", got)
	}
	if s.observed.Ledger.Term.Lost {
		t.Error("the loss is still on record")
	}
}

// By a clock that was far ahead, nothing was lost in the future.
func TestLossByAClockThatWasAhead(t *testing.T) {
	s := readScene(t, "lost\npolicy cni cni\ndaemonset cni new\nnode a cni=old")
	s.observed.Ledger.Term = Term{Number: 1, Lost: true, Since: s.now.Add(time.Hour)}
	s.observed.Ledger, _ = s.observed.Ledger.Lead("next", Term{})
	s.observed.Ledger = New(s.observed, s.policies, s.now).Ledger
	if got := evicted(New(s.observed, s.policies, s.now.Add(time.Minute))); got != "a" {
		t.Errorf("evicts on %q, want on a", got)
	}
}

// In every cluster there are DaemonSets of others.
func TestPodsOfOthersAreNoLoss(t *testing.T) {
	s := readScene(t, "lost\npolicy cni cni\ndaemonset cni new\ndaemonset proxy new\nnode a proxy=new\nnode b proxy=new")
	s.observed.Ledger.Term = Term{Number: 1}
	if New(s.observed, s.policies, s.now).Ledger.Term.Lost {
		t.Error("a new installation has lost something")
	}
}
