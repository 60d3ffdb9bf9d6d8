// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

const (
	// effort bounds a simulation, counted in nodes looked at; what is left then
	// is estimated. Every fleet is worth fullPasses looks at all its nodes.
	effort, passEffort, fullPasses = 300_000, 100, 20
	// patience is how many passes in a row may come to nothing, window after
	// window, until nothing more is expected.
	patience = 200
)

// Simulate runs the planner on a simulated clock. Pods that are on their way
// settle as if they had been evicted now; what has failed, is held or is not
// Ready stays so. A template that waits for a window is applied when it opens.
// It costs one plan for each instant at which a pod is evicted or settles; of
// very long rollouts the end is estimated.
func Simulate(obs Observed, policies []policy.UpgradePolicy, now time.Time) Forecast {
	s := newSimulation(obs, policies, now)
	most := max(effort, fullPasses*len(s.last.Decisions))
	for spent := 0; spent < most; spent += passEffort + len(s.last.Decisions) {
		s.pass()
		if !s.advance() {
			return s.forecast(false)
		}
	}
	return s.forecast(true)
}

type simulation struct {
	obs      Observed
	before   Ledger // as it was found
	policies []policy.UpgradePolicy
	start    time.Time
	now      time.Time
	last     Plan
	visits   map[visitKey]*Planned      // open ones
	lengths  map[visitKey]time.Duration // of those and the ended ones, as they are reckoned with
	ended    []*Planned
	pods     map[types.UID]int // places in obs.Pods
	first    map[pair]int      // places of the first pod of each DaemonSet on each node
	sets     map[types.NamespacedName]*health.DaemonSet
	due      map[visitKey]int // outdated pods that were not evicted yet
	arrival  time.Time        // when the first of the pods settles that this pass made
	made     int
	idle     int                     // passes since something last happened
	nodes    map[string]*health.Node // all of them, by name
	placers  map[types.UID]*health.Placer
	tooLate  map[string]bool      // policies of which a visit did not fit into what was left of a window
	work     map[string]int       // by policy: nodes that remain and wait for nobody
	done     map[string]time.Time // by policy: when there last were fewer of them
}

func newSimulation(obs Observed, policies []policy.UpgradePolicy, now time.Time) *simulation {
	s := &simulation{
		obs: obs, before: obs.Ledger, policies: slices.Clone(policies), start: now, now: now,
		visits: map[visitKey]*Planned{}, lengths: map[visitKey]time.Duration{}, sets: map[types.NamespacedName]*health.DaemonSet{},
		nodes: make(map[string]*health.Node, len(obs.Nodes)), placers: map[types.UID]*health.Placer{}, tooLate: map[string]bool{},
		work: map[string]int{}, done: map[string]time.Time{},
	}
	for i := range obs.Nodes {
		s.nodes[obs.Nodes[i].Name] = &obs.Nodes[i]
	}
	s.obs.lengths = make(map[string]lengths, len(policies))
	for _, p := range policies { // what is simulated measures nothing
		s.obs.lengths[p.Name] = newLengths(p, obs.Ledger.Finished)
	}
	s.supposeOpen()
	s.obs.UnderWay, s.obs.Queued = nil, nil // they are sent anew
	s.obs.DaemonSets = slices.Clone(obs.DaemonSets)
	for i := range s.obs.DaemonSets {
		d := &s.obs.DaemonSets[i]
		d.RevisionObserved = true
		s.sets[d.Name] = d
		placer := health.NewPlacer(*d)
		s.placers[d.UID] = &placer
	}
	s.applyTemplates()
	s.last = New(s.obs, s.policies, now)
	for i := range s.policies {
		for _, status := range s.last.Policies {
			if status.Name == s.policies[i].Name { // a percentage is of all nodes, not of those left
				s.policies[i] = inNodes(s.policies[i], status)
			}
		}
	}
	s.obs.Ledger.Waves = s.last.Ledger.Waves
	s.obs.Ledger.Objections = slices.DeleteFunc(slices.Clone(s.last.Ledger.Objections), func(o Objection) bool { return o.Unknown })
	s.obs.Answers = noRoom(obs.Answers) // the others that came are in the ledger, or will come
	s.countDue()
	s.reduce()
	return s
}

// noRoom are the nodes of which it is known that a pod does not fit. They stay so.
func noRoom(known Answers) Answers {
	answers := Answers{}
	for q, a := range known {
		if q.Kind == Room && a.Reply == No {
			answers[q] = a
		}
	}
	return answers
}

// supposeOpen lets no gate hold anything, and of what has no answer supposes that
// it is yes. A pod that was rejected is.
func (s *simulation) supposeOpen() {
	s.obs.Supposed = true
	s.obs.Ledger.Objections = slices.DeleteFunc(slices.Clone(s.obs.Ledger.Objections), func(o Objection) bool { return o.Unknown || o.Gate != "" })
	for i := range s.policies {
		p := &s.policies[i]
		p.Gates, p.Drain, p.Waves = nil, nil, slices.Clone(p.Waves)
		for j := range p.Waves {
			p.Waves[j].Gates = nil
		}
	}
}

// inNodes is a policy with numbers in the place of percentages.
func inNodes(p policy.UpgradePolicy, s PolicyStatus) policy.UpgradePolicy {
	p.MaxUnavailable = intstr.FromInt(p.MaxUnavailableOf(s.Nodes))
	p.Waves = slices.Clone(p.Waves)
	for i, w := range s.Waves {
		p.Waves[i].MaxUnavailable = intstr.FromInt(w.MaxUnavailable)
	}
	return p
}

// pass plans, and does what is planned.
func (s *simulation) pass() {
	if s.applyTemplates() {
		s.countDue()
		s.idle = 0
	}
	s.last = New(s.obs, s.policies, s.now)
	s.obs.Ledger = s.last.Ledger
	s.arrival = time.Time{}
	s.idle++
	s.track()
	for i := range s.last.Decisions {
		switch d := &s.last.Decisions[i]; {
		case d.Action == Evict:
			s.replace(d)
			s.idle = 0
		case d.State == health.Missing && s.sets[d.DaemonSet].TemplatePending:
			// Whether it belongs there by the template in force is not known.
		case d.State == health.Settling || d.State == health.Replacing || d.State == health.Missing:
			s.bringUp(d)
			s.idle = 0
		case d.Reason == Soaking:
			s.idle = 0
		case d.Reason == TooLateToStart:
			s.tooLate[d.Policy] = true
		}
	}
	for _, p := range s.last.Policies {
		work := p.Remaining - p.Blocked
		if before, known := s.work[p.Name]; known && work < before {
			s.done[p.Name] = s.now
		}
		s.work[p.Name] = work
	}
	if settled := len(s.last.Decisions) - s.remaining(); settled > len(s.last.Decisions)/2 {
		s.reduce()
	}
}

func (s *simulation) remaining() int {
	n := 0
	for _, p := range s.last.Policies {
		n += p.Remaining
	}
	return n
}

// track follows the visits of the last plan.
func (s *simulation) track() {
	waves := map[visitKey]string{}
	for i := range s.last.Decisions {
		if d := &s.last.Decisions[i]; d.Wave != "" {
			waves[visitKey{d.Policy, d.Node}] = d.Wave
		}
	}
	open := make(map[visitKey]bool, len(s.last.Ledger.Visits))
	for _, v := range s.last.Ledger.Visits {
		key := visitKey{v.Policy, v.Node}
		open[key] = true
		if s.visits[key] == nil {
			s.visits[key] = &Planned{Policy: v.Policy, Node: v.Node, Wave: waves[key], Start: v.Started}
			s.lengths[key] = s.statusOf(v.Policy).Estimate
		}
		for _, step := range v.Steps {
			s.visits[key].add(step.DaemonSet)
		}
	}
	for key, v := range s.visits {
		if !open[key] {
			v.End = s.now
			s.ended = append(s.ended, v)
			delete(s.visits, key)
		}
	}
}

// statusOf is what the last plan says of a policy; the zero status when it is gone.
func (s *simulation) statusOf(policy string) *PolicyStatus {
	for i := range s.last.Policies {
		if p := &s.last.Policies[i]; p.Name == policy {
			return p
		}
	}
	return &PolicyStatus{}
}

func (p *Planned) add(daemonSet string) {
	namespace, name, _ := strings.Cut(daemonSet, string(types.Separator))
	if id := (types.NamespacedName{Namespace: namespace, Name: name}); !slices.Contains(p.DaemonSets, id) {
		p.DaemonSets = append(p.DaemonSets, id)
	}
}

// advance goes to the next instant at which something changes. It says whether
// there is one, and something left to do.
func (s *simulation) advance() bool {
	hopeful := !s.arrival.IsZero()
	for _, p := range s.last.Policies {
		hopeful = hopeful || (p.Never == "" && p.Remaining > p.Blocked)
	}
	a := alarm{now: s.now}
	a.at(s.last.NextLook)
	a.at(s.arrival)
	if !hopeful || s.idle > patience || a.next.IsZero() {
		return false
	}
	s.now = a.next
	return true
}
