// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// truth is what the evictions have really done, whatever the ledger says. It is
// kept when pods go and come, and an eviction is held against it when it is sent.
type truth struct {
	taken    []takenPod // evicted, and not available since
	tried    []triedSet // by DaemonSet
	soaks    []soakedWave
	unknown  []string  // policies whose waves may have soaked
	failures []Failure // that were on record once, and count
	marks    []int     // by DaemonSet: the commit that was marked bad last; 0 is none
}

// takenPod is one that we have put out of service.
type takenPod struct {
	policy, node string
	set          int
	pod          types.UID
}

// triedSet is where the revision in force was tried, for as long as no pod of it
// has been available anywhere.
type triedSet struct {
	nodes []string
	works bool // or it is not known
	may   int  // the largest number of failures that was allowed
}

// soakedWave is when pods of the wave were evicted last.
type soakedWave struct {
	policy, wave string
	since        time.Time // when the wave, its revisions or the policy changed
	evicted      map[nodeSet]time.Time
	quiet        bool // it was left alone for long enough to be done
}

func (t *truth) init(m *model) {
	t.tried, t.marks = make([]triedSet, len(m.sets)), make([]int, len(m.sets))
	t.lost()
}

// lost forgets what the planner cannot know any more. What it makes of that is
// more caution, and is checked by the ledger's own count.
func (t *truth) lost() {
	t.taken, t.failures = nil, nil
	for _, s := range slices.Clone(t.soaks) {
		t.forgetSoaks(s.policy, true)
	}
	for i := range t.tried {
		t.tried[i] = triedSet{works: true}
	}
	clear(t.marks)
}

// forgetSoaks starts anew with the waves of a policy. If they may have soaked before,
// nothing is known of them until the next revision.
func (t *truth) forgetSoaks(policy string, perhapsDone bool) {
	t.soaks = slices.DeleteFunc(t.soaks, func(s soakedWave) bool { return s.policy == policy })
	t.unknown = slices.DeleteFunc(t.unknown, func(name string) bool { return name == policy })
	if perhapsDone {
		t.unknown = append(t.unknown, policy)
	}
}

// revised starts anew with a DaemonSet that has another revision. Of one that was in
// force before it is not known how far it came.
func (t *truth) revised(m *model, set int, before bool) {
	for _, p := range slices.Concat(m.policies, m.removed) {
		if slices.Contains(p.DaemonSets, m.sets[set].name) {
			t.forgetSoaks(p.Name, before)
		}
	}
	t.tried[set] = triedSet{works: before}
}

// serve finds what is back in service, gone, or not wanted any more.
func (t *truth) serve(m *model) {
	t.taken = slices.DeleteFunc(t.taken, func(p takenPod) bool {
		n := m.node(p.node)
		return n == nil || n.tainted() || m.available(p.node, p.set, m.now) || (m.lenient(p) && m.ready(p))
	})
	for i := range t.tried {
		s := &t.tried[i]
		s.nodes = slices.DeleteFunc(s.nodes, func(name string) bool { n := m.node(name); return n == nil || n.tainted() })
		if s.works {
			continue
		}
		for _, p := range m.pods {
			s.works = s.works || (p.set == i && p.Hash == m.sets[i].applied && p.Ready)
		}
	}
}

// lenient says that a pod need only be Ready, however long: the limits of a
// policy that is gone are not known, and clocks that differ end it early.
func (m *model) lenient(p takenPod) bool {
	return m.agents[0].offset != 0 || m.agents[1].offset != 0 ||
		!slices.ContainsFunc(m.policies, func(o policy.UpgradePolicy) bool { return o.Name == p.policy })
}

func (m *model) ready(p takenPod) bool {
	return slices.ContainsFunc(m.pods, func(o *fakePod) bool { return o.Node == p.node && o.set == p.set && o.Ready && !o.Deleting })
}

// recorded notes the failures that a ledger holds, and takes for served what its plan
// saw so.
func (t *truth) recorded(m *model, p *pendingPlan) {
	t.taken = slices.DeleteFunc(t.taken, p.sawBack)
	t.failures = t.failures[:0]
	t.failures = append(t.failures, p.plan.Ledger.Failures...)
}

// held are the nodes that a policy has put out of service, each once.
func (t *truth) held(policy string) []string {
	var nodes []string
	for _, p := range t.taken {
		if p.policy == policy && !slices.Contains(nodes, p.node) {
			nodes = append(nodes, p.node)
		}
	}
	return nodes
}

// sawBack says that another pod was there when a plan was made, and available as far
// as it knew.
func (p *pendingPlan) sawBack(taken takenPod) bool {
	pol := p.policy(taken.policy)
	if pol == nil {
		return false
	}
	d, limits := &p.obs.DaemonSets[taken.set], health.Limits{MinReady: time.Duration(pol.MinReadySeconds) * time.Second}
	return slices.ContainsFunc(p.obs.Pods, func(o *health.Pod) bool {
		return o.Node == taken.node && o.Owner == d.UID && o.UID != taken.pod && limits.Available(d, o, p.clock)
	})
}

// evicted holds an eviction that is sent against the truth.
func (t *truth) evicted(m *model, p *pendingPlan, d *Decision, pod *fakePod) {
	pol := p.policy(d.Policy)
	open := p.obs.Ledger.visitOf(d) != nil
	for _, o := range t.taken { // of two visits that are open, since a policy has come back, one goes on
		if !open && o.node == d.Node && o.policy != d.Policy && p.policy(o.policy) != nil {
			m.Errorf("I4: %s evicts on %s, which %s has put out of service", d.Policy, d.Node, o.policy)
		}
	}
	if p.plan.Ledger.visitOf(d).step(d.DaemonSet.String()) == nil {
		m.Errorf("I2: evicts on %s, and no visit is on record", d.Node)
	}
	up := m.up(d.Node, pol, p.clock)
	held := t.held(d.Policy)
	led := m.ledger.Term.Number == p.plan.Ledger.Term.Number
	if !led {
		m.checkVisited(p, d)
	}
	if !slices.Contains(held, d.Node) && (up || !open) && (led || m.limitsAs(pol)) {
		t.checkHeld(m, p, d, pol, held)
	}
	t.checkTried(m, p, d, pod, pol)
	t.checkSoaked(m, p, d, pol, up)
	t.taken = append(t.taken, takenPod{d.Policy, d.Node, pod.set, pod.UID})
}

// limitsAs says that a policy allows what it did. If not, the leader of now goes by
// other limits than one of before.
func (m *model) limitsAs(p *policy.UpgradePolicy) bool {
	limits := func(p policy.UpgradePolicy) string {
		out := fmt.Sprint(p.MaxUnavailable.String(), p.Topology)
		for _, w := range p.Waves {
			out += fmt.Sprint(w.Name, w.Selector, w.MaxUnavailable.String())
		}
		return out
	}
	return slices.ContainsFunc(slices.Concat(m.policies, m.removed), func(o policy.UpgradePolicy) bool {
		return o.Name == p.Name && limits(o) == limits(*p)
	})
}

// up says that every DaemonSet of a policy serves on the node, and did so when a
// plan was made, by its clock: what has settled since could not be known to.
func (m *model) up(node string, p *policy.UpgradePolicy, clock time.Time) bool {
	for i, s := range m.sets {
		if slices.Contains(p.DaemonSets, s.name) && !m.available(node, i, clock) {
			return false
		}
	}
	return true
}

func (l *Ledger) visitOf(d *Decision) *Visit { return l.visitTo(d.Policy, d.Node) }

func (l *Ledger) visitTo(policy, node string) *Visit {
	for i := range l.Visits {
		if l.Visits[i].Policy == policy && l.Visits[i].Node == node {
			return &l.Visits[i]
		}
	}
	return nil
}

func (p *pendingPlan) policy(name string) *policy.UpgradePolicy {
	for i := range p.policies {
		if p.policies[i].Name == name {
			return &p.policies[i]
		}
	}
	return nil
}

// evicts says that a plan evicts for a policy on a node.
func (p *pendingPlan) evicts(policy, node string) bool {
	return slices.ContainsFunc(p.plan.Decisions, func(d Decision) bool { return d.Node == node && d.Policy == policy && d.Action == Evict })
}

func (p *pendingPlan) labels(node string) map[string]string {
	for i := range p.obs.Nodes {
		if p.obs.Nodes[i].Name == node {
			return p.obs.Nodes[i].Labels
		}
	}
	return nil
}

// checkHeld: I2 and I4. One more node goes out of service.
func (t *truth) checkHeld(m *model, p *pendingPlan, d *Decision, pol *policy.UpgradePolicy, held []string) {
	var status PolicyStatus
	for _, s := range p.plan.Policies {
		if s.Name == d.Policy {
			status = s
		}
	}
	most := pol.MaxUnavailableOf(status.Nodes)
	wave, inWave, domain := pol.WaveOf(labels.Set(p.labels(d.Node))), 1, p.labels(d.Node)[pol.Topology.Key]
	domains := []string{domain}
	for _, name := range held {
		l := p.labels(name)
		if l == nil {
			continue // it has joined since
		}
		other := pol.WaveOf(labels.Set(l))
		inWave += one(other == wave)
		if other >= 0 && p.evicts(d.Policy, name) { // perhaps before, as the plan counts
			most = max(most, status.Waves[other].MaxUnavailable)
		}
		if other := l[pol.Topology.Key]; !slices.Contains(domains, other) {
			domains = append(domains, other)
		}
	}
	if wave >= 0 {
		w := &status.Waves[wave]
		if inWave > w.MaxUnavailable {
			m.Errorf("I2: %s takes %s, and then %d nodes of wave %s are out of service of at most %d: %v", d.Policy, d.Node, inWave, w.Name, w.MaxUnavailable, held)
		}
		most = max(most, w.MaxUnavailable)
	}
	if len(held)+1 > most {
		m.Errorf("I2: %s takes %s, and then %d nodes are out of service of at most %d: %v", d.Policy, d.Node, len(held)+1, most, held)
	}
	if pol.Topology.Key != "" && len(domains) > pol.Topology.MaxDomains {
		visited := slices.ContainsFunc(held, func(name string) bool { l := p.labels(name); return l != nil && l[pol.Topology.Key] == domain })
		if !visited {
			m.Errorf("I4: %s takes %s, and then nodes in %v are out of service, of at most %d domains", d.Policy, d.Node, domains, pol.Topology.MaxDomains)
		}
	}
}

// checkTried: I7. What works nowhere breaks no more than it takes to halt.
func (t *truth) checkTried(m *model, p *pendingPlan, d *Decision, pod *fakePod, pol *policy.UpgradePolicy) {
	s, set := &t.tried[pod.set], m.sets[pod.set]
	if s.works || set.applied != set.live {
		return
	}
	s.may = max(s.may, pol.MaxFailures+1)
	if !slices.Contains(s.nodes, d.Node) {
		s.nodes = append(s.nodes, d.Node)
	}
	if !p.knows(set) {
		s.may = max(s.may, len(s.nodes))
	}
	acknowledged := 0
	for _, f := range p.plan.Ledger.Failures {
		acknowledged += one(f.Acknowledged && f.DaemonSet == set.key)
	}
	if len(s.nodes) > s.may+acknowledged {
		m.Errorf("I7: %s of %s works nowhere, and is tried on %v", set.applied, set.key, s.nodes)
	}
}

// knows says that a plan was made for the revision that a DaemonSet has.
func (p *pendingPlan) knows(set *fakeSet) bool {
	return slices.ContainsFunc(p.obs.DaemonSets, func(d health.DaemonSet) bool { return d.Name == set.name && d.Revision == set.applied })
}

// checkSoaked: I11. A node that is up is evicted in a later wave only if earlier
// ones were left alone for their soak.
func (t *truth) checkSoaked(m *model, p *pendingPlan, d *Decision, pol *policy.UpgradePolicy, up bool) {
	at := pol.WaveOf(labels.Set(p.labels(d.Node)))
	if at < 0 {
		return
	}
	for i := range at {
		w := &pol.Waves[i]
		s := t.soak(m, d.Policy, w.Name)
		last := s.last(p, pol, i)
		if up && !last.IsZero() && !s.quiet && m.now.Before(last.Add(w.Soak-time.Minute)) {
			m.Errorf("I11: %s evicts on %s in wave %s, and in wave %s a pod was evicted %s ago, which is to soak %s",
				d.Policy, d.Node, pol.Waves[at].Name, w.Name, m.now.Sub(last), w.Soak)
		}
	}
	s, soak := t.soak(m, d.Policy, pol.Waves[at].Name), pol.Waves[at].Soak
	s.quiet = s.quiet || !m.now.Before(latest(s.since, s.last(p, pol, at)).Add(soak))
	if settled := m.settledFirst(p, pol, at); len(s.evicted) == 0 && !settled.IsZero() {
		s.quiet = s.quiet || !m.now.Before(settled.Add(soak))
	}
	s.evicted[nodeSet{d.Node, d.DaemonSet.String()}] = m.now
}

// last is when a pod was evicted last that still belongs on a node of the wave; zero
// when none was.
func (s *soakedWave) last(p *pendingPlan, pol *policy.UpgradePolicy, wave int) (last time.Time) {
	for where, evicted := range s.evicted {
		node := slices.IndexFunc(p.obs.Nodes, func(n health.Node) bool { return n.Name == where.node })
		set := slices.IndexFunc(p.obs.DaemonSets, func(d health.DaemonSet) bool { return d.Name.String() == where.daemonSet })
		if node >= 0 && set >= 0 && pol.WaveOf(labels.Set(p.obs.Nodes[node].Labels)) == wave && health.ShouldRun(p.obs.Nodes[node], p.obs.DaemonSets[set]).ShouldRun {
			last = latest(last, evicted)
		}
	}
	return last
}

// settledFirst is since when some node of a wave runs the newest revisions of all
// DaemonSets; zero when none does. One that has joined may, while all others wait
// for somebody: then the wave has soaked before anything was evicted there.
func (m *model) settledFirst(p *pendingPlan, pol *policy.UpgradePolicy, wave int) (first time.Time) {
	for _, n := range m.nodes {
		if l := p.labels(n.Name); l == nil || pol.WaveOf(labels.Set(l)) != wave {
			continue
		}
		var youngest time.Time
		pods, want := 0, 0
		for i, set := range m.sets {
			if !slices.Contains(pol.DaemonSets, set.name) {
				continue
			}
			want++
			for _, o := range m.pods {
				if o.Node == n.Name && o.set == i && o.Hash == set.applied && o.Ready && !o.Deleting {
					pods, youngest = pods+1, latest(youngest, o.ReadySince)
				}
			}
		}
		if pods >= want && want > 0 && (first.IsZero() || youngest.Before(first)) {
			first = youngest
		}
	}
	return first
}

func (t *truth) soak(m *model, policy, wave string) *soakedWave {
	for i := range t.soaks {
		if t.soaks[i].policy == policy && t.soaks[i].wave == wave {
			return &t.soaks[i]
		}
	}
	t.soaks = append(t.soaks, soakedWave{policy: policy, wave: wave, since: m.now, evicted: map[nodeSet]time.Time{}, quiet: slices.Contains(t.unknown, policy)})
	return &t.soaks[len(t.soaks)-1]
}

// check holds a plan against what it was made from.
func (m *model) check(p *pendingPlan, now time.Time) {
	checkInvariants(m, p.obs, p.policies, now, p.plan)
	m.checkFailures(p)
	if m.steps%8 == 0 {
		m.checkOthers(p, now)
	}
	if m.steps%512 == 1 {
		checkConstantOf(m, p.obs, p.policies, now, p.plan)
	}
}

// checkFailures: I7. What was on record stays, what has plainly failed is on
// record, and with too many a policy evicts nothing.
func (m *model) checkFailures(p *pendingPlan) {
	for i := range p.plan.Decisions {
		d := &p.plan.Decisions[i]
		if d.Action != Evict {
			continue
		}
		var nodes []string
		for _, f := range p.plan.Ledger.Failures {
			if f.Policy == d.Policy && !f.Acknowledged && lists(*p.policy(d.Policy), f.DaemonSet) && !slices.Contains(nodes, f.Node) {
				nodes = append(nodes, f.Node)
			}
		}
		if len(nodes) > p.policy(d.Policy).MaxFailures {
			m.Errorf("I7: %s evicts on %s, and %v have failed", d.Policy, d.Node, nodes)
		}
	}
	for i := range p.obs.Ledger.Visits {
		m.checkBroken(p, &p.obs.Ledger.Visits[i])
	}
}

// checkBroken wants the failure of a visited node on record whose new pod crashes.
func (m *model) checkBroken(p *pendingPlan, v *Visit) {
	pol := p.policy(v.Policy)
	node := slices.IndexFunc(p.obs.Nodes, func(n health.Node) bool { return n.Name == v.Node })
	if pol == nil || node < 0 || !p.obs.Nodes[node].Ready {
		return
	}
	for _, s := range v.Steps {
		set := slices.IndexFunc(p.obs.DaemonSets, func(d health.DaemonSet) bool { return d.Name.String() == s.DaemonSet })
		d := &p.obs.DaemonSets[set]
		if !s.Settled.IsZero() || !d.RevisionObserved || !lists(*pol, s.DaemonSet) {
			continue
		}
		pods, broken := 0, false
		for _, o := range p.obs.Pods {
			if o.Node == v.Node && o.Owner == d.UID {
				pods++
				broken = broken || (!o.Deleting && !o.Ready && o.Hash == d.Revision && o.Problem.Fatal())
			}
		}
		if pods == 1 && broken && !slices.ContainsFunc(p.plan.Ledger.Failures, func(f Failure) bool {
			return f.Node == v.Node && f.DaemonSet == s.DaemonSet && f.Revision == d.Revision
		}) {
			m.Errorf("I7: %s of %s crashes on %s, and the failure is not on record", d.Revision, s.DaemonSet, v.Node)
		}
	}
}
