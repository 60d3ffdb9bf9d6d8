// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// tour is one policy on its way over the fleet.
type tour struct {
	*fleet
	policy policy.UpgradePolicy
	book   *book
	alarm  *alarm
	limits health.Limits
	sets   []int          // the policy's DaemonSets that exist, in its order
	open   map[int]*Visit // the policy's visits as they were before the survey, by the place of their node
	stops  []stop         // the nodes on which something is to be done or under way, by name

	decisions *[]Decision // of all tours
	waves     []wave      // one of all nodes when the policy has none
	gate      int         // the first wave that is not done; visits start in no later one
	wanted    int         // nodes of the policy
	leftOver  int         // nodes on which only a pod is left that would not return

	hours     Hours
	window    window.State // for some node
	perNode   bool         // windows select nodes
	lengths   lengths
	longest   time.Duration // that a visit is reckoned with; zero when none is
	paused    *Pause
	counts    []Counts        // by place in sets
	outdated  []int           // by place in sets: nodes that are on another revision
	settled   []int           // by place in sets: nodes that have settled on the revision
	unsettled []int           // by place in sets: nodes that are Ready and have not
	leaks     []candidateLeak // seen in this pass
	verifies  bool            // a Job runs after its visits
	broken    []brokenNode    // seen in this pass
	halted    string          // why; "" when it is not
	gateHolds map[int]hold    // by wave: what its gates say
	rejected  hold            // why the API server does not admit a pod; zero when it does, or nobody asked
	stuck     stuckVisits     // of all waves, before anything is decided
	trials    map[string]int  // by DaemonSet: visits that try its revision and have not settled
	amnesty   map[string]int  // by DaemonSet: nodes whose failure is acknowledged

	buffer    []*health.Pod
	youngest  time.Time         // when the last of the node's settled pods became available
	busy      map[string]string // by policy: what is said of the nodes that it visits
	elsewhere map[string]string // by node: another policy that visits it
	shared    *hold             // the last one that was shared
	ruling    *Ruling           // the last one
	ground    ground            // of that
	shut      hold              // what a window means that is shut for all nodes
	late      sentence[lateness]
	fitOf     map[time.Duration]window.Fit // of that length into windows that are for all nodes
	short     sentence[window.Fit]
}

func newTour(f *fleet, p policy.UpgradePolicy, b *book, a *alarm, decisions *[]Decision) *tour {
	t := &tour{
		fleet: f, policy: p, book: b, alarm: a, decisions: decisions,
		limits: health.Limits{
			MinReady:           time.Duration(p.MinReadySeconds) * time.Second,
			ReadyTimeout:       p.ReadyTimeout,
			TerminationTimeout: p.TerminationTimeout,
		},
		hours: NewHours(p, b.ledger, f.doubt, f.now),
		busy:  map[string]string{}, gateHolds: map[int]hold{}, fitOf: map[time.Duration]window.Fit{},
	}
	var known bool
	if t.lengths, known = f.lengths[p.Name]; !known {
		t.lengths = newLengths(p, b.ledger.Finished)
	}
	for _, name := range p.DaemonSets {
		if set, ok := f.bySet[name]; ok {
			t.sets = append(t.sets, set)
			t.counts = append(t.counts, Counts{Name: name})
		}
	}
	t.open = b.openOf(f, p.Name)
	t.waves = newWaves(p)
	t.verifies = slices.ContainsFunc(p.AllGates(), func(g policy.Gate) bool { return g.Job.When == policy.After })
	t.outdated, t.settled, t.unsettled = make([]int, len(t.sets)), make([]int, len(t.sets)), make([]int, len(t.sets))
	t.window = t.hours.Any()
	if !t.window.Open {
		t.shut = shut(t.window)
	}
	a.at(t.window.ValidUntil)
	for i := range p.Calendar.Allows {
		t.perNode = t.perNode || p.Calendar.Allows[i].Selector != nil
	}
	for i := range b.ledger.Pauses {
		if b.ledger.Pauses[i].Policy == p.Name {
			t.paused = &b.ledger.Pauses[i]
		}
	}
	return t
}

// windowOf is what the calendar says of a node.
func (t *tour) windowOf(n *health.Node) *window.State {
	if !t.perNode {
		return &t.window
	}
	s := t.hours.For(n.Labels)
	t.alarm.at(s.ValidUntil)
	return &s
}

// survey looks at every node. It follows what has become of visits and closes
// those that are over, but starts nothing.
func (t *tour) survey() {
	expected := 0
	for _, set := range t.sets {
		expected += t.fleet.outdated[set]
	}
	t.stops = make([]stop, 0, min(expected, len(t.nodes)))
	var s look // one for all nodes, since it is large and most need none
	for i, node := range t.nodes {
		if i%ahead == 0 {
			t.readNodes(i, min(i+ahead, len(t.nodes)))
		}
		if !t.visitNode(i, node, &s) {
			continue
		}
		t.wanted += one(s.wanted)
		t.waves[s.wave].take(&s, t.youngest)
		if s.set != nil {
			s.hold = t.share(awaited(s.verdict))
		}
		if s.set != nil || s.visit != nil {
			s.decision = int32(len(*t.decisions))
			t.stops = append(t.stops, s.stop)
		}
		t.leftOver += one(s.set == nil && s.shown.leftOver())
		d := Decision{Node: node.Name}
		if s.set == nil { // or else it is decided later
			d.Ruling = t.nothingToDo(&s)
		}
		*t.decisions = append(*t.decisions, d)
	}
	t.recordFailures()
	t.recordSettled()
	t.recordLeaks()
	if t.forgot() {
		t.adopt()
	}
}

// readNodes reads ahead the pods of some nodes, of which the last is before to.
func (t *tour) readNodes(from, to int) {
	t.buffer = t.buffer[:0]
	for node := from; node < to; node++ {
		for _, set := range t.sets {
			t.buffer = t.podsOf(node, set, t.buffer)
		}
	}
	readAhead(t.buffer)
}

// visitNode looks at one node, and says whether the policy has something there.
func (t *tour) visitNode(i int, node *health.Node, s *look) bool {
	*s, t.youngest = look{}, time.Time{}
	s.node, s.place, s.visit = node, int32(i), t.open[i]
	ours := s.visit != nil
	for place, set := range t.sets {
		d := t.fleet.sets[set]
		t.buffer = t.podsOf(i, set, t.buffer[:0])
		step := s.visit.step(d.key)
		placement := d.placer.On(node)
		if !placement.ShouldRun && len(t.buffer) == 0 && step == nil {
			continue
		}
		ours = true
		step.renew(d, t.buffer, t.fleet)
		verdict := health.Classify(health.Situation{
			Node: node, DaemonSet: d.DaemonSet, Placement: placement, Pods: t.buffer, Visit: step.visit(), Limits: t.limits,
		}, t.now)
		s.wanted = s.wanted || verdict.State != health.NotWanted
		t.alarm.at(verdict.Until)
		t.follow(step, d, verdict, node.Name)
		t.count(place, placement, verdict)
		t.noteFailure(place, step, d, verdict, node.Name)
		t.noteLeak(place, step, d, verdict, node)
		if s.weigh(step, verdict, placement, step != nil && t.doubtful(step)) {
			t.alarm.at(t.certain(step))
		}
		s.consider(d, step, verdict, placement)
		if verdict.State == health.Current {
			t.youngest = latest(t.youngest, t.limits.AvailableAt(d.DaemonSet, verdict.Pod))
		}
	}
	if ours {
		t.place(&s.stop)
		t.adoptVerifying(s)
		t.conclude(s)
	}
	return ours
}

// visit is what health needs to know of a step that is under way.
func (s *Step) visit() health.Visit {
	if s == nil || !s.Settled.IsZero() {
		return health.Visit{}
	}
	return health.Visit{Evicted: s.Evicted, GracePeriod: time.Duration(s.GraceSeconds) * time.Second, Gone: s.Gone, Replaced: s.Replaced}
}

// count adds the pods in the buffer to the DaemonSet's counts.
func (t *tour) count(place int, placement health.Placement, v health.Verdict) {
	c, d := &t.counts[place], t.fleet.sets[t.sets[place]].DaemonSet
	var exists, ready, available, upToDate bool
	for _, p := range t.buffer {
		exists = true
		ready = ready || (p.Ready && !p.Deleting)
		available = available || t.limits.Available(d, p, t.now)
		upToDate = upToDate || (d.UpToDate(p) && !p.Deleting)
	}
	if placement.ShouldRun {
		c.Desired++
		c.Current += one(exists)
		c.Ready += one(ready)
	}
	c.UpToDate += one(upToDate)
	c.Available += one(available)
	c.Failed += one(v.State == health.Failed)
	t.outdated[place] += one(exists && !upToDate && v.State != health.NotWanted)
	t.settled[place] += one(v.State == health.Current)
	t.unsettled[place] += one(placement.ShouldRun && v.State != health.Current && v.State != health.Unreachable)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
