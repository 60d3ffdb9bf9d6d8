// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lamplighter.dev/reconcile/policy"
)

var (
	modelSteps = flag.Int("model.steps", 1_000_000, "steps of TestModel, shared by all runs")
	modelSeed  = flag.Uint64("model.seed", 1, "seed of TestModel")
)

// A planner is New, or one with a fault in it.
type planner func(Observed, []policy.UpgradePolicy, time.Time) Plan

// TestModel lets two agents roll random revisions out over a fake cluster that
// gives them trouble of every kind, and checks I1 to I14 after every step: from
// what a plan was made from, from the ledger, and from what is really out of
// service. Each run has an end at which the trouble is over and everything must
// come to be settled. A run is given by its seed, and a step by its number, so
// that what failed is run again without the trouble that it does not need.
func TestModel(t *testing.T) {
	steps := *modelSteps
	if raceDetector || testing.Short() {
		steps /= 50
		t.Logf("REDUCED to %d steps under -race or -short", steps)
	}
	start := time.Now()
	var done, runs, evictions atomic.Int64
	var failed sync.Once
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for done.Load() < int64(steps) && !t.Failed() {
				m := newModel(*modelSeed, uint64(runs.Add(1)), New)
				m.run()
				done.Add(int64(m.steps))
				evictions.Add(int64(m.evictions))
				if len(m.failures) > 0 {
					failed.Do(func() { t.Error(explain(m)) })
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(start)
	t.Logf("%d steps of %d runs with %d evictions in %s, %.0f steps/s", done.Load(), runs.Load(), evictions.Load(), took.Round(time.Millisecond), float64(done.Load())/took.Seconds())
	if !t.Failed() && evictions.Load() < done.Load()/50 {
		t.Errorf("only %d pods were evicted", evictions.Load())
	}
}

// explain runs a failed run again with less and less trouble, and then writes out
// what is left of it.
func explain(m *model) string {
	invariant, calm := m.invariant(), map[int]bool{}
	fails := func() bool {
		again := newModel(m.seed, m.number, m.plan)
		again.calm = calm
		again.run()
		return again.invariant() == invariant
	}
	for size := max(1, m.steps/2); size > 0; size /= 2 {
		for first := 0; first < m.steps; first += size {
			var added []int
			for i := first; i < min(first+size, m.steps); i++ {
				if !calm[i] {
					calm[i], added = true, append(added, i)
				}
			}
			if len(added) > 0 && !fails() {
				for _, i := range added {
					delete(calm, i)
				}
			}
		}
	}
	last := newModel(m.seed, m.number, m.plan)
	last.calm, last.tracing = calm, true
	last.run()
	return fmt.Sprintf("run %d of seed %d, step %d:\n%s\n%s", m.number, m.seed, last.steps,
		strings.Join(last.failures, "\n"), strings.Join(last.story(), "\n"))
}

// invariant is the name of what failed first; "" when nothing did.
func (m *model) invariant() string {
	if len(m.failures) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(m.failures[0], ":")
	return name
}

// story is all trouble that was made, and the last plans in full.
func (m *model) story() []string {
	plans := 3
	var out []string
	for _, line := range slices.Backward(m.trace) {
		if m.inFull(line) {
			plans--
		}
		if plans >= 0 || !m.inFull(line) {
			out = append(out, line)
		}
	}
	slices.Reverse(out)
	return out
}

func (m *model) inFull(line string) bool { return strings.Contains(line, "\n") }

// model is one run.
type model struct {
	*fakeCluster
	seed, number uint64
	plan         planner
	rand         *rand.Rand // of this step

	policies []policy.UpgradePolicy
	removed  []policy.UpgradePolicy // and may come back
	ledger   Ledger
	version  int // of the ledger
	agents   [2]*fakeAgent
	leader   int
	refuses  bool           // there is a disruption budget
	fails    bool           // evictions are not answered
	late     []lateDecision // evictions that have failed, as far as their agent knows

	lateDrains []lateDecision
	jobs       []*fakeJob
	soon       bool // the agent looks again by itself
	asked      bool // questions are asked, and answered as chance has it
	over       bool // the trouble
	relapses   bool // a bad template comes when it is over

	truth
	steps, evictions int
	failures         []string
	calm             map[int]bool // steps without trouble
	tracing          bool
	trace            []string
}

const (
	troubledSteps = 120
	finalSteps    = 600
)

func newModel(seed, number uint64, plan planner) *model {
	m := &model{seed: seed, number: number, plan: plan}
	m.draw(3)
	m.fakeCluster = newFakeCluster(m.rand, time.Date(2026, 3, 2, 12+m.rand.IntN(14), 0, 0, 0, time.UTC))
	m.asked, m.relapses = m.chance(2), m.chance(2)
	m.policies = m.drawPolicies()
	for i := range m.agents {
		m.agents[i] = newFakeAgent()
	}
	m.truth.init(m)
	return m
}

// chance is one in n.
func (m *model) chance(n int) bool { return m.rand.IntN(n) == 0 }

func choose[T any](m *model, list ...T) T { return list[m.rand.IntN(len(list))] }

func (m *model) say(format string, args ...any) {
	if m.tracing {
		m.trace = append(m.trace, fmt.Sprintf("%4d %s ", m.steps, m.now.Format("02 15:04:05.0"))+fmt.Sprintf(format, args...))
	}
}

// Errorf and Fatalf make a model a reporter.
func (m *model) Errorf(format string, args ...any) {
	m.failures = append(m.failures, fmt.Sprintf(format, args...))
}

func (m *model) Fatalf(format string, args ...any) { m.Errorf(format, args...) }
func (m *model) Helper()                           {}

// run makes trouble for a while, and then none.
func (m *model) run() {
	for range troubledSteps {
		if m.step(); len(m.failures) > 0 {
			return
		}
	}
	m.endTrouble()
	m.finish()
	if bad := m.relapse(); bad != nil {
		good := bad.applied
		m.finish()
		m.checkBack(bad, good)
	}
}

// finish lets everything come to its end.
func (m *model) finish() {
	for range finalSteps {
		if len(m.failures) > 0 || m.finished() {
			return
		}
		m.step()
	}
	if len(m.failures) == 0 {
		m.unfinished("at last")
	}
}

func (m *model) finished() bool {
	return m.settled() && m.applied() && len(m.ledger.Visits) == 0 && m.cordoned() == ""
}

// unfinished says what has not come to its end.
func (m *model) unfinished(when string) {
	if m.settled() && m.applied() && len(m.ledger.Visits) == 0 {
		m.Errorf("I13: %s is cordoned for nobody %s, at %s", m.cordoned(), when, m.now)
		return
	}
	m.Errorf("I10: not all nodes are settled %s, at %s", when, m.now)
}

// step is a disturbance, what an agent does then, and the time until the next.
func (m *model) step() {
	m.draw(0)
	if !m.over && !m.calm[m.steps] {
		for n := m.rand.IntN(3); n > 0; n-- {
			m.disturb()
		}
		if m.chance(12) {
			m.leader = 1 - m.leader
			m.say("agent %d leads", m.leader)
		}
	}
	m.draw(1)
	acting := m.agents[m.leader]
	if !m.over && m.chance(10) { // two that take themselves for leaders
		acting = m.agents[1-m.leader]
	}
	m.pass(acting)
	m.draw(2)
	m.sleep(acting)
	m.steps++
}

// draw begins the random numbers of one part of a step, so that they stay the
// same when there is less trouble.
func (m *model) draw(part uint64) {
	m.rand = rand.New(rand.NewPCG(m.seed, (m.number<<20+uint64(m.steps))<<2+part))
}

// sleep lets time pass: mostly until something is due.
func (m *model) sleep(a *fakeAgent) {
	due := alarm{now: m.now}
	due.at(m.next())
	if !a.last.NextLook.IsZero() {
		due.at(a.last.NextLook.Add(-a.offset))
	}
	for _, q := range a.questions {
		due.at(q.due)
	}
	if m.over && (len(a.questions) > 0 || len(a.flights) > 0 || m.soon) {
		due.at(m.now.Add(time.Second))
	}
	if m.over {
		switch {
		case m.finished():
			return
		case due.next.IsZero():
			m.unfinished("and nothing more happens by itself")
			return
		}
		m.now = due.next
		m.tick()
		return
	}
	switch n := m.rand.IntN(8); {
	case n < 2, len(m.lateDrains) > 0, len(a.flights) > 0 && n < 5:
		m.now = m.now.Add(time.Duration(1+m.rand.IntN(5000)) * time.Millisecond)
	case n == 2:
		m.now = m.now.Add(time.Duration(1+m.rand.IntN(40)) * time.Minute)
	case n == 3:
		if m.chance(4) {
			m.now = m.now.Add(time.Duration(1+m.rand.IntN(10)) * time.Hour)
		}
	default:
		if !due.next.IsZero() {
			m.now = due.next
		}
	}
	m.tick()
}

// endTrouble mends everything, and brings good revisions.
func (m *model) endTrouble() {
	m.draw(3)
	m.over, m.leader, m.refuses, m.fails = true, 0, false, false
	m.policies = append(m.policies, m.removed...)
	m.removed = nil
	slices.SortFunc(m.policies, func(a, b policy.UpgradePolicy) int { return cmp.Compare(a.Name, b.Name) })
	for i, n := range m.nodes {
		n.zone, n.gpu = (i+1)%3, 1 // the first wave has a node
		n.label()
		n.Hold, n.Maintenance, n.AtWork, n.Deleting, n.guests.stay = "", "", false, false, false
		n.taint("dedicated", false)
		n.fits(true)
		if n.person {
			n.cordon(false, "")
		}
		m.setReady(n, true)
	}
	for _, p := range m.pods {
		p.stuck, p.Finalizers = false, nil
		p.touch()
	}
	l := m.ledger
	for i, s := range m.sets {
		s.hold, s.refuses = "", false
		if m.mayStayBack(s) && m.chance(2) {
			l = m.mend(i, l)
			continue
		}
		s.commit(podBehaviour{kind: "good", delay: 20 * time.Second})
		m.bring(i, s.git.revision)
	}
	for _, j := range m.jobs {
		j.result = Yes
	}
	for _, a := range m.agents {
		a.offset, a.pending, a.blind = 0, nil, false
	}
	for _, p := range m.policies {
		l = l.withoutPause(p.Name)
	}
	m.write(l)
	m.say("the trouble is over")
}
