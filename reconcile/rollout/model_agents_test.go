// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// A fakeAgent takes itself for the leader now and then. What it sees of the
// cluster and of Git may be some seconds old; the ledger it reads anew, and
// writes only if nobody has written in between.
type fakeAgent struct {
	view     Observed
	applied  []string      // templates in it
	git      []gitTemplate // by DaemonSet
	blind    bool          // it has not read Git since it leads, only what is on record of it
	policies []policy.UpgradePolicy
	seen     time.Time
	offset   time.Duration // of its clock
	term     Term          // that it has claimed; the zero Term when it does not lead

	answers   Answers
	questions []askedQuestion
	flights   []flight

	last    Plan
	pending *pendingPlan
}

type askedQuestion struct {
	Question
	due, asked time.Time
}

// A pendingPlan is one between two of its steps: to be recorded, or to be acted
// on.
type pendingPlan struct {
	plan     Plan
	obs      Observed
	policies []policy.UpgradePolicy
	git      []gitTemplate // as the agent saw it
	wanted   []string      // templates that are to be applied; "" is none
	version  int           // of the ledger that it was made from, and then of the one it has written
	recorded bool
	made     time.Time
	clock    time.Time // what it was by its agent's
}

// staleness bounds how old a view is, and how long an agent that has lost its
// lease may still act. Both together are less than the planner's doubt.
const staleness = 8 * time.Second

func newFakeAgent() *fakeAgent { return &fakeAgent{answers: Answers{}} }

// write is an optimistic write that was not in vain.
func (m *model) write(l Ledger) {
	m.ledger = l
	m.version++
}

// pass goes on with what an agent has begun, or begins anew.
func (m *model) pass(a *fakeAgent) {
	m.fly(a)
	if p := a.pending; p != nil {
		a.pending = nil
		if m.now.Sub(p.made) < staleness {
			m.goOn(a, p)
			return
		}
	}
	now := m.now.Add(a.offset)
	m.soon = false
	if m.over || a.policies == nil || m.now.Sub(a.seen) > staleness || m.chance(2) {
		a.view, a.policies, a.seen = m.observe(), m.policies, m.now
		a.applied, a.git = m.templates()
	} else if m.now.After(a.seen) {
		m.say("a view of %s", m.now.Sub(a.seen))
	}
	m.truth.serve(m)
	obs := a.view
	if obs.Ledger = m.lead(a); obs.Ledger.Term.Number == 0 {
		return
	}
	if a.term.Number == 0 { // who begins to lead asks Git first
		_, a.git = m.templates()
	}
	wanted := m.compareTemplates(a, &obs)
	obs.Ledger, obs.UnderWay, obs.Queued = m.land(a, obs.Ledger, now), a.underWay(), a.queued()
	obs.Supposed = !m.asked
	m.answer(a)
	if obs.Answers = nil; m.asked { // who supposes that every answer is yes, and evicts, has none
		obs.Answers = maps.Clone(a.answers)
	}
	if a.offset.Abs() > 5*time.Second {
		obs.ClockProblem = "the clock is off by " + a.offset.String()
	}
	p := &pendingPlan{plan: m.plan(obs, a.policies, now), obs: obs, policies: a.policies, git: a.git, wanted: wanted, version: m.version, made: m.now, clock: now}
	a.last = p.plan
	if m.asked {
		m.ask(a, p.plan.Questions)
	}
	if m.tracing {
		m.say("plan of agent %d, clock %s, view %s\n%s", slices.Index(m.agents[:], a), a.offset, m.now.Sub(a.seen),
			formatPlan(p.plan, &scene{now: now, policies: a.policies, observed: obs, finished: len(obs.Ledger.Finished)}))
	}
	m.check(p, now)
	m.goOn(a, p)
}

// lead is the ledger for the term of an agent; without one when he has to learn
// that another leads. He takes himself for the leader again at once, or soon.
func (m *model) lead(a *fakeAgent) Ledger {
	name := "agent " + strconv.Itoa(slices.Index(m.agents[:], a))
	l, leads := m.ledger.Lead(name, a.term)
	if leads {
		return l
	}
	m.say("%s learns that %s leads", name, l.Term.Leader)
	m.crash(a)
	a.term = Term{}
	if m.soon = m.chance(2); m.soon {
		return Ledger{}
	}
	l, _ = m.ledger.Lead(name, a.term)
	return l
}

// goOn records a plan and acts on it, unless there is an accident.
func (m *model) goOn(a *fakeAgent, p *pendingPlan) {
	calm := m.over || m.calm[m.steps]
	if !p.recorded {
		switch {
		case !calm && m.chance(16):
			m.say("dies before it records")
			return
		case !calm && m.chance(8):
			m.say("is slow to record")
			a.pending = p
			return
		case p.version != m.version:
			m.say("another has written the ledger")
			return
		}
		if !m.over || len(p.plan.Ledger.Visits) > 0 {
			m.truth.recorded(m, p)
		}
		m.truth.marked(m, p)
		m.compare(m.ledger, p.plan.Ledger)
		m.write(p.plan.Ledger)
		p.recorded, p.version = true, m.version
		a.term = m.ledger.Term
	}
	switch {
	case !calm && m.chance(16):
		m.say("dies before it acts")
		return
	case !calm && m.chance(12):
		m.say("is slow to act")
		a.pending = p
		return
	}
	m.act(a, p)
}

// compare says which visits a plan begins and ends.
func (m *model) compare(before, after Ledger) {
	if !m.tracing {
		return
	}
	for _, v := range before.Visits {
		if after.visitTo(v.Policy, v.Node) == nil {
			m.say("the visit of %s to %s ends", v.Policy, v.Node)
		}
	}
	for _, v := range after.Visits {
		if before.visitTo(v.Policy, v.Node) == nil {
			m.say("%s visits %s", v.Policy, v.Node)
		}
	}
}

// act sends evictions, with the preconditions that they have.
func (m *model) act(a *fakeAgent, p *pendingPlan) {
	calm := m.over || m.calm[m.steps]
	dies := !calm && m.chance(16)
	ledger := p.plan.Ledger
	m.truth.serve(m)
	m.carryOut()
	m.giveWay(a, p)
	for i := range p.plan.Decisions {
		d := &p.plan.Decisions[i]
		switch {
		case d.Action != Evict, m.launch(a, p, d):
			continue
		case dies && m.chance(2):
			m.say("dies half-way")
			return
		case m.fails && !calm:
			if m.chance(4) {
				m.late = append(m.late, lateDecision{p, d, m.now.Add(staleness)})
			}
			continue
		}
		if m.evict(p, d) == Refused {
			ledger = ledger.Refuse(*d, "not now", m.now.Add(a.offset))
		}
	}
	m.giveBack(p)
	ledger = m.empty(a, p, ledger)
	m.runJobs(p)
	m.applyTemplates(a, p)
	if p.version == m.version && !(!calm && m.chance(16)) {
		m.write(ledger)
	}
	m.endJobs()
}

// lateDecision is one of which something is still on its way.
type lateDecision struct {
	plan     *pendingPlan
	decision *Decision
	until    time.Time
}

// carryOut is what becomes of some evictions that have failed.
func (m *model) carryOut() {
	for _, e := range m.late {
		if !m.now.After(e.until) && m.evict(e.plan, e.decision) == Sent {
			m.say("late")
		}
	}
	m.late = nil
	m.drainLate()
}

// evict is the API server's part. It asks its disruption budgets only about pods
// that are not on their way already.
func (m *model) evict(p *pendingPlan, d *Decision) AttemptResult {
	i := slices.IndexFunc(m.pods, func(pod *fakePod) bool { return pod.UID == d.Pod.UID })
	switch {
	case i < 0, m.pods[i].Deleting:
		return Gone
	case m.refuses && !m.over && !m.calm[m.steps] && m.chance(2):
		m.say("eviction on %s is refused", d.Node)
		return Refused
	case m.pods[i].ResourceVersion != d.Pod.ResourceVersion:
		return Gone
	}
	m.truth.evicted(m, p, d, m.pods[i])
	m.evictions++
	m.say("%s evicts %s of %s on %s", d.Policy, d.Pod.UID, d.DaemonSet, d.Node)
	m.delete(m.pods[i])
	return Sent
}

// ask puts the questions of a plan on their way. An answer may be late.
func (m *model) ask(a *fakeAgent, questions []Question) {
	for _, q := range questions {
		if slices.ContainsFunc(a.questions, func(o askedQuestion) bool { return o.Question == q }) {
			continue
		}
		var late time.Duration
		if !m.over {
			late = choose(m, 0, 0, time.Second, 10*time.Second, time.Minute)
		}
		a.questions = append(a.questions, askedQuestion{q, m.now.Add(late), m.now})
	}
}

// answer brings the answers that are there by now.
func (m *model) answer(a *fakeAgent) {
	a.questions = slices.DeleteFunc(a.questions, func(q askedQuestion) bool {
		if m.now.Before(q.due) {
			return false
		}
		answer := Answer{Reply: Yes, Message: "so it is", At: q.asked.Add(a.offset)}
		if !m.over {
			answer.Reply = choose(m, Yes, Yes, Yes, No, Unknown)
		}
		if q.Kind == JobGate {
			answer.Reply, answer.Ended = m.askJob(q.Job)
		}
		if answer.Reply != Yes {
			answer.Misses = a.answers[q.Question].Misses + 1
		}
		a.answers[q.Question] = answer
		return true
	})
}
