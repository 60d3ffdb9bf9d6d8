// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// checkInvariants holds a plan against what it was made from: I1, I3 to I14, and
// I2 by the ledger's own count. What is really out of service is counted by the
// chaos test.
func checkInvariants(t reporter, obs Observed, policies []policy.UpgradePolicy, now time.Time, p Plan) {
	t.Helper()
	c := newCheck(obs, policies, now)
	for _, d := range p.Decisions {
		if d.Action == Evict {
			c.eviction(t, d)
		}
		if d.Action == Evict && p.Ledger.Term.Lost {
			t.Errorf("I2: evicts on %s, and it is forgotten what is on its way", d.Node)
		}
		if (d.Pod != nil) != (d.Action == Evict || d.Action == Drain) || d.Reason == "" || !slices.Contains(Reasons(), d.Reason) {
			t.Errorf("malformed decision on %s: %+v", d.Node, *d.Ruling)
		}
	}
	c.oneDecisionEach(t, p)
	c.slots(t, p)
	c.priorities(t, p)
	c.durable(t, p)
	c.waves(t, p)
	c.topology(t, p)
	c.checkAsked(t, p)
	c.checkGates(t, p)
	c.checkDrains(t, p)
	c.checkJobs(t, p)
	c.reversals(t, p)
}

// runs says that a pod of a revision exists.
func (c *check) runs(owner types.UID, revision string) bool {
	return slices.ContainsFunc(c.obs.Pods, func(p *health.Pod) bool { return p.Owner == owner && p.Hash == revision })
}

type check struct {
	obs      Observed
	policies map[string]policy.UpgradePolicy
	now      time.Time
	nodes    map[string]health.Node
	sets     map[string]health.DaemonSet
	visits   map[visitKey]Visit // in the ledger before
}

func newCheck(obs Observed, policies []policy.UpgradePolicy, now time.Time) *check {
	c := &check{
		obs: obs, now: now, policies: map[string]policy.UpgradePolicy{}, nodes: map[string]health.Node{},
		sets: map[string]health.DaemonSet{}, visits: map[visitKey]Visit{},
	}
	for _, p := range policies {
		c.policies[p.Name] = p
	}
	for _, n := range obs.Nodes {
		c.nodes[n.Name] = n
	}
	for _, d := range obs.DaemonSets {
		c.sets[d.Name.String()] = d
	}
	for _, v := range obs.Ledger.Visits {
		c.visits[visitKey{v.Policy, v.Node}] = v
	}
	return c
}

func (c *check) eviction(t reporter, d Decision) {
	t.Helper()
	p, node, set := c.policies[d.Policy], c.nodes[d.Node], c.sets[d.DaemonSet.String()]
	window := p.Calendar.At(c.now).For(labels.Set(node.Labels))
	proceed := slices.IndexFunc(c.obs.Ledger.Proceeds, func(o Proceed) bool {
		return o.Policy == d.Policy && !o.Since.After(c.now) && o.Until.After(c.now) && o.Until.Sub(o.Since) <= 24*time.Hour
	})
	if !window.Open && proceed < 0 {
		t.Errorf("I1: evicts on %s, the window is shut", d.Node)
	}
	if c.obs.ClockProblem != "" && (!p.Calendar.Always || len(p.Calendar.Freezes) > 0) {
		t.Errorf("I1: evicts on %s, and the clock is not to be trusted", d.Node)
	}
	if proceed >= 0 { // it closes when the calendar does that is in force then, if one is
		until := c.obs.Ledger.Proceeds[proceed].Until
		if window = p.Calendar.At(until).For(labels.Set(node.Labels)); !window.Open {
			window.Close = until
		}
	}
	if _, open := c.visits[visitKey{d.Policy, d.Node}]; !open && !window.Close.IsZero() {
		c.inTime(t, d, window.Close)
	}
	switch {
	case !node.Ready, node.Deleting, node.Hold != "", set.Hold != "", !set.OnDelete, !set.RevisionObserved, set.TemplatePending:
		t.Errorf("I6: evicts on node %+v of %+v", node, set)
	case node.Maintenance != "", node.Cordoned() && p.CordonedNodes != policy.Visit && node.CordonedBy != CordonMark(c.obs.Instance, p.Name):
		t.Errorf("I6: evicts on node %+v, where others are at work", node)
	case !health.ShouldRun(node, set).ShouldRun:
		t.Errorf("I6: evicts on %s, where the pod would not return", d.Node)
	}
	found := false
	for _, pod := range c.obs.Pods {
		if pod.Node != d.Node || pod.Owner != set.UID {
			continue
		}
		found = found || (pod.UID == d.Pod.UID && pod.Hash != set.Revision)
		if pod.UID == d.Pod.UID && pod.Needs != nil && !health.NeedsOf(set.Template).Within(*pod.Needs) && !c.fits(d, set.Revision) {
			t.Errorf("I6: evicts on %s, and it is not known whether the new pod fits", d.Node)
		}
		if pod.Deleting {
			t.Errorf("I6: evicts on %s while pod %s is going", d.Node, pod.UID)
		}
	}
	if !found {
		t.Errorf("I6: evicts %s on %s, which is not there or not outdated", d.Pod.UID, d.Node)
	}
}

// inTime: I3. A visit starts only if it should end before the window closes.
func (c *check) inTime(t reporter, d Decision, closes time.Time) {
	t.Helper()
	p, node := c.policies[d.Policy], c.nodes[d.Node]
	takes := newLengths(p, c.obs.Ledger.Finished)
	if c.now.Add(takes.most.whole).After(closes) && (c.now.Add(takes.half.whole).After(closes) || p.Calendar.At(c.now).Fits(node.Labels, takes.most.whole).Found) {
		t.Errorf("I3: starts on %s, too late before %s: it takes %+v", d.Node, closes, takes)
	}
}

// fits says that it is known that a pod of the revision fits on the node.
func (c *check) fits(d Decision, revision string) bool {
	a := c.obs.Answers[Question{Kind: Room, DaemonSet: d.DaemonSet, Revision: revision, Node: d.Node}]
	return c.obs.Supposed || (a.Reply == Yes && !a.At.After(c.now) && c.now.Before(a.At.Add(30*time.Second)))
}

func (c *check) oneDecisionEach(t reporter, p Plan) {
	t.Helper()
	seen := map[visitKey]bool{}
	previous := ""
	for _, d := range p.Decisions {
		key := visitKey{d.Policy, d.Node}
		if sorted := d.Policy + "\x00" + d.Node; seen[key] || sorted <= previous {
			t.Errorf("I9: a second decision, or out of order: %v", key)
		} else {
			previous = sorted
		}
		seen[key] = true
	}
	if want := len(c.policies) * len(c.nodes); len(p.Decisions) > want {
		t.Errorf("I9: %d decisions for %d nodes of policies", len(p.Decisions), want)
	}
}

// started are the visits that a plan begins, and does not merely find.
func (c *check) started(p Plan) map[visitKey]bool {
	started := map[visitKey]bool{}
	for _, v := range p.Ledger.Visits {
		_, before := c.visits[visitKey{v.Policy, v.Node}]
		if !before && v.Started.Equal(c.now) && !c.obs.Ledger.lost() && !p.Ledger.Term.Lost {
			started[visitKey{v.Policy, v.Node}] = true
		}
	}
	return started
}

// slots: I2 by the ledger, I4, I7 and the unproven rule.
func (c *check) slots(t reporter, p Plan) {
	t.Helper()
	open, started, trying := map[string]int{}, map[string]int{}, map[string]int{}
	startedIn := map[waveKey]bool{}
	for _, v := range p.Ledger.Visits {
		open[v.Policy]++
		if _, gone := c.nodes[v.Node]; !gone {
			t.Errorf("I8: the visit to %s is open, which does not exist", v.Node)
		}
		for _, s := range v.Steps {
			if set := c.sets[s.DaemonSet]; s.Settled.IsZero() && s.To == set.Revision {
				trying[s.DaemonSet]++
			}
		}
	}
	evictedBy, begins := map[string]string{}, c.started(p)
	for _, d := range p.Decisions {
		if d.Action != Evict && !begins[visitKey{d.Policy, d.Node}] {
			continue
		}
		starts := c.visits[visitKey{d.Policy, d.Node}].Node == ""
		started[d.Policy] += one(starts)
		if w := c.policies[d.Policy].WaveOf(c.nodes[d.Node].Labels); w >= 0 && starts {
			startedIn[waveKey{d.Policy, c.policies[d.Policy].Waves[w].Name}] = true
		}
		if other := evictedBy[d.Node]; other != "" {
			t.Errorf("I4: %s and %s evict on %s", other, d.Policy, d.Node)
		}
		evictedBy[d.Node] = d.Policy
		for _, v := range c.obs.Ledger.Visits {
			if c.policies[v.Policy].Name != "" && v.Node == d.Node && v.Policy != d.Policy && slices.ContainsFunc(p.Ledger.Visits, func(o Visit) bool {
				return o.Policy == v.Policy && o.Node == v.Node && o.Started.Before(c.now) &&
					c.visits[visitKey{d.Policy, d.Node}].Node == ""
			}) {
				t.Errorf("I4: %s starts on %s, which %s visits", d.Policy, d.Node, v.Policy)
			}
		}
		if g := p.Ledger.Governed[d.DaemonSet.String()]; g.Proven != c.sets[d.DaemonSet.String()].Revision {
			most := c.policies[d.Policy].MaxFailures + 1
			for _, f := range p.Ledger.Failures {
				most += one(f.Acknowledged && f.DaemonSet == d.DaemonSet.String())
			}
			if n := trying[d.DaemonSet.String()]; n > most {
				t.Errorf("%d nodes try unproven %s, more than %d", n, d.DaemonSet, most)
			}
		}
	}
	for _, s := range p.Policies {
		most := s.MaxUnavailable
		for _, w := range s.Waves { // what goes back does not wait for its wave
			if startedIn[waveKey{s.Name, w.Name}] {
				most = max(most, w.MaxUnavailable)
			}
		}
		if started[s.Name] > 0 && open[s.Name] > most {
			t.Errorf("I2: %s starts %d visits, %d are open of at most %d", s.Name, started[s.Name], open[s.Name], most)
		}
		for _, w := range s.Waves {
			if startedIn[waveKey{s.Name, w.Name}] && w.OutOfService > w.MaxUnavailable {
				t.Errorf("I2: %s starts visits in wave %s, %d are open of at most %d", s.Name, w.Name, w.OutOfService, w.MaxUnavailable)
			}
		}
		if s.Halted && slices.ContainsFunc(p.Decisions, func(d Decision) bool { return d.Policy == s.Name && d.Action == Evict }) {
			t.Errorf("I7: %s is halted and evicts", s.Name)
		}
	}
}

// priorities: I5. Nothing starts while an open visit, or a node that is down,
// waits for a slot or a trial of the same DaemonSet, unless its eviction came to
// nothing before. Who waits for a slot of its wave could not have one of another.
func (c *check) priorities(t reporter, p Plan) {
	t.Helper()
	rank := func(d Decision) int {
		refused := slices.IndexFunc(p.Ledger.Refusals, func(r Refusal) bool {
			return r.Policy == d.Policy && r.Node == d.Node && r.DaemonSet == d.DaemonSet.String()
		})
		switch {
		case refused >= 0 && !slices.Contains(c.obs.Ledger.Refusals, p.Ledger.Refusals[refused]):
			return 3 // its visit has given way
		case c.visits[visitKey{d.Policy, d.Node}].Node != "" && p.Ledger.visitOf(&d) != nil:
			return 0 // one that was refused before may have ended between two pods
		case refused >= 0:
			return 3
		case d.State == health.OutdatedDown:
			return 1
		default:
			return 2
		}
	}
	type turn struct{ policy, namespace, name, wave string }
	anywhere := func(d Decision) turn { return turn{d.Policy, d.DaemonSet.Namespace, d.DaemonSet.Name, "any"} }
	inWave := func(d Decision) turn {
		return turn{d.Policy, d.DaemonSet.Namespace, d.DaemonSet.Name, "wave " + d.Wave}
	}
	waiting := map[turn]int{}
	for _, d := range p.Decisions {
		if d.Reason != BudgetSpent {
			continue
		}
		key := anywhere(d)
		goesBack := p.Ledger.reversal(d.DaemonSet.String()) != nil // in its wave's turn or not
		if ofWave.MatchString(d.Message) || (goesBack && strings.Contains(d.Message, ", in all waves")) {
			key = inWave(d)
		}
		if r, ok := waiting[key]; !ok || rank(d) < r {
			waiting[key] = rank(d)
		}
	}
	for _, d := range p.Decisions {
		for _, key := range []turn{anywhere(d), inWave(d)} {
			if r, ok := waiting[key]; ok && d.Action == Evict && rank(d) > r {
				t.Errorf("I5: %s on %s goes before a node that is worse", d.Policy, d.Node)
			}
		}
	}
}

// ofWave is what is said of a wave that has no slot left.
var ofWave = regexp.MustCompile(`^\d+ of at most \d+ (visited )?nodes are (visited|down)(, and none .*)?$`)

// durable: I7. A failure leaves the ledger only with its revision.
func (c *check) durable(t reporter, p Plan) {
	t.Helper()
	for _, f := range c.obs.Ledger.Failures {
		set := c.sets[f.DaemonSet]
		if set.RevisionObserved && set.Revision != f.Revision {
			continue
		}
		if !slices.ContainsFunc(p.Ledger.Failures, func(o Failure) bool { return o.key() == f.key() && o.Acknowledged == f.Acknowledged }) {
			t.Errorf("I7: failure %+v is forgotten", f)
		}
	}
}

// waves: I11. What is evicted in a later wave is down in a visit that was open
// before, or goes back, or every earlier wave has a node that has settled and none that is
// outdated and could be visited.
func (c *check) waves(t reporter, p Plan) {
	t.Helper()
	for _, d := range p.Decisions {
		pol := c.policies[d.Policy]
		if d.Action != Evict || len(pol.Waves) == 0 {
			continue
		}
		at := pol.WaveOf(labels.Set(c.nodes[d.Node].Labels))
		if d.Wave != pol.Waves[at].Name {
			t.Errorf("node %s is in wave %s, not %s", d.Node, pol.Waves[at].Name, d.Wave)
		}
		if at == 0 || c.goesBack(d) || (c.visits[visitKey{d.Policy, d.Node}].Node != "" && !c.allAvailable(pol, d.Node)) {
			continue
		}
		settled := false
		for _, o := range p.Decisions {
			if o.Policy != d.Policy || pol.WaveOf(labels.Set(c.nodes[o.Node].Labels)) >= at {
				continue
			}
			settled = settled || o.Reason == UpToDate
			if o.Action == Evict || (o.State == health.Outdated && !o.Reason.needsSomebody()) {
				t.Errorf("I11: %s evicts on %s in wave %s before %s in wave %s: %+v", d.Policy, d.Node, d.Wave, o.Node, o.Wave, *o.Ruling)
			}
		}
		soaked := slices.ContainsFunc(p.Ledger.Waves, func(w SettledWave) bool { return w.Policy == d.Policy && w.Wave == pol.Waves[0].Name && w.Soaked })
		if !settled && !soaked {
			t.Errorf("I11: %s evicts on %s in wave %s, and no node has settled before", d.Policy, d.Node, d.Wave)
		}
		for _, w := range p.Ledger.Waves {
			if w.Policy == d.Policy && w.Wave == pol.Waves[0].Name && c.now.Before(w.Settled.Add(pol.Waves[0].Soak)) {
				t.Errorf("I11: %s evicts on %s in wave %s, and the first one soaks until %s", d.Policy, d.Node, d.Wave, w.Settled.Add(pol.Waves[0].Soak))
			}
		}
	}
}

// allAvailable says that every DaemonSet of a policy has an available pod on a node.
func (c *check) allAvailable(p policy.UpgradePolicy, node string) bool {
	limits := health.Limits{MinReady: time.Duration(p.MinReadySeconds) * time.Second}
	for _, name := range p.DaemonSets {
		d := c.sets[name.String()]
		if !slices.ContainsFunc(c.obs.Pods, func(pod *health.Pod) bool {
			return pod.Node == node && pod.Owner == d.UID && limits.Available(&d, pod, c.now)
		}) {
			return false
		}
	}
	return true
}

// topology: I4. No visit starts in one more domain than may be visited.
func (c *check) topology(t reporter, p Plan) {
	t.Helper()
	for name, pol := range c.policies {
		if pol.Topology.Key == "" {
			continue
		}
		open, started := map[string]bool{}, map[string]bool{}
		for _, v := range p.Ledger.Visits {
			if v.Policy != name {
				continue
			}
			domain := c.nodes[v.Node].Labels[pol.Topology.Key]
			open[domain] = true
			if _, before := c.visits[visitKey{name, v.Node}]; !before && v.Started.Equal(c.now) && !c.obs.Ledger.lost() && !p.Ledger.Term.Lost {
				started[domain] = true
			}
		}
		before := map[string]bool{}
		for _, v := range p.Ledger.Visits {
			if _, old := c.visits[visitKey{name, v.Node}]; old && v.Policy == name {
				before[c.nodes[v.Node].Labels[pol.Topology.Key]] = true
			}
		}
		for domain := range started {
			if !before[domain] && len(open) > pol.Topology.MaxDomains {
				t.Errorf("I4: %s starts in %s, and visits are in %v of at most %d", name, domain, open, pol.Topology.MaxDomains)
			}
		}
	}
}
