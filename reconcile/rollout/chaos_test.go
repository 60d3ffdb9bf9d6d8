// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// TestChaos lets an agent roll random revisions out over a cluster in which
// nodes go down, come and go, people hold things, evictions are refused, the
// agent dies between recording and acting, and the ledger is lost; and checks
// every plan. Then it lets the trouble end, and wants the rollout to end too.
func TestChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		defer func() {
			if t.Failed() {
				t.Log("\n" + strings.Join(c.trace[max(0, len(c.trace)-6):], "\n"))
			}
		}()
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			c.disturb(t)
			c.pass(t, rapid.SampledFrom(accidents).Draw(t, "accident"))
			c.sleep(rapid.Bool().Draw(t, "sleeps long"))
		}
		checkForecast(t, c.observe(c.ledger), c.policies, c.now)
		c.recover()
		for range 600 {
			if c.finished() {
				return
			}
			c.pass(t, "none")
			if !c.sleep(true) {
				break
			}
		}
		if !c.finished() {
			t.Fatalf("I10: not all nodes are settled at %s", c.now)
		}
	})
}

var accidents = []string{"none", "none", "none", "none", "dies before recording", "dies before evicting", "dies half-way", "refused", "ledger lost", "stale view", "stale view"}

type chaos struct {
	*world
	policies  []policy.UpgradePolicy
	ledger    Ledger
	last      Plan
	seen      Observed // and when, for a view that lags
	seenAt    time.Time
	clock     string // what is wrong with it
	recovered bool
	asks      bool // and is answered, at times with a no
	answers   Answers
	jobs      map[string]Reply  // of gates that exist, and how they do
	touched   map[visitKey]bool // evicted on, and not in service since
	trace     []string          // every pass
}

func newChaos(t *rapid.T) *chaos {
	start := time.Date(2026, 3, 2, 20, 0, 0, 0, time.UTC)
	c := &chaos{world: newWorld(start, rapid.IntRange(1, 6).Draw(t, "nodes"), 3), touched: map[visitKey]bool{}, asks: rapid.Bool().Draw(t, "asks"), answers: Answers{}, jobs: map[string]Reply{}}
	nightly := must(window.Recurring(window.RecurringSpec{Name: "night", TimeZone: "UTC", Schedule: "0 22 * * *", Duration: "3h"}))
	gpu := must(window.Recurring(window.RecurringSpec{Name: "gpu", TimeZone: "UTC", Schedule: "0 10 * * *", Duration: "2h"}))
	gpu.Selector = labels.SelectorFromSet(labels.Set{"gpu": "true"})
	freeze := window.Freeze{Window: must(window.OneOff("freeze", start.Add(24*time.Hour), start.Add(30*time.Hour)))}
	for i, sets := range [][]string{{"ds0", "ds1"}, {"ds2"}} {
		p := policy.UpgradePolicy{
			Name:           fmt.Sprintf("p%d", i),
			MaxUnavailable: rapid.SampledFrom([]intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%")}).Draw(t, "max"),
			MaxFailures:    rapid.IntRange(0, 2).Draw(t, "failures"), MinReadySeconds: 10,
			ReadyTimeout: 10 * time.Minute, TerminationTimeout: 5 * time.Minute, VisitDuration: 5 * time.Minute,
			Calendar: window.Calendar{Always: rapid.Bool().Draw(t, "always"), Allows: []window.Window{nightly, gpu}, Freezes: []window.Freeze{freeze}},
		}
		if rapid.Bool().Draw(t, "drains") {
			p.Drain = &policy.Drain{Timeout: 3 * time.Minute}
		}
		if rapid.Bool().Draw(t, "gated") {
			p.Gates = []policy.Gate{{Name: "quiet", HTTP: policy.HTTPGate{URL: "http://slo", ExpectedStatus: 200}}}
		}
		for _, when := range []policy.JobWhen{policy.Before, policy.After} {
			if c.asks && rapid.Bool().Draw(t, "runs Jobs "+string(when)) {
				p.Gates = append(p.Gates, policy.Gate{Name: strings.ToLower(string(when)), Job: policy.JobGate{When: when, Spec: "{}", Timeout: 4 * time.Minute}})
			}
		}
		for _, s := range sets {
			p.DaemonSets = append(p.DaemonSets, nameOf(s))
		}
		if rapid.Bool().Draw(t, "waves") {
			p.Waves = drawWaves(t, p.MaxUnavailable)
		}
		if rapid.Bool().Draw(t, "visits cordoned nodes") {
			p.CordonedNodes = policy.Visit
		}
		if rapid.Bool().Draw(t, "topology") {
			p.Topology = policy.Topology{Key: "zone", MaxDomains: rapid.IntRange(1, 2).Draw(t, "domains")}
		}
		c.policies = append(c.policies, p)
	}
	return c
}

// drawWaves makes a first wave that may have no node for a while.
func drawWaves(t *rapid.T, most intstr.IntOrString) []policy.Wave {
	first := rapid.SampledFrom([]labels.Set{{"gpu": "true"}, {"zone": "z1"}}).Draw(t, "first wave")
	soak := time.Duration(rapid.IntRange(0, 120).Draw(t, "soak")) * time.Minute
	return []policy.Wave{
		{Name: "first", Selector: labels.SelectorFromSet(first), MaxUnavailable: intstr.FromInt32(1), Soak: soak},
		{Name: "rest", MaxUnavailable: most},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// disturb does something to the cluster, or nothing.
func (c *chaos) disturb(t *rapid.T) {
	nodes := c.sortedNodes()
	if len(nodes) == 0 {
		c.addNode(fmt.Sprintf("m%d", c.made), true)
		return
	}
	n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
	switch rapid.SampledFrom([]string{"nothing", "nothing", "change", "change", "down", "up", "hold", "release", "taint", "untaint", "relabel", "cordon", "uncordon", "others come", "others go", "delete node", "add node", "delete pod", "resume", "proceed", "end proceed", "clock jumps", "clock is set"}).Draw(t, "disturbance") {
	case "change":
		s := c.sets[rapid.IntRange(0, len(c.sets)-1).Draw(t, "set")]
		b := behaviour{
			kind:  rapid.SampledFrom([]string{"good", "good", "good", "crash", "pull", "never", "ends"}).Draw(t, "kind"),
			delay: time.Duration(rapid.IntRange(1, 300).Draw(t, "delay")) * time.Second,
		}
		if rapid.Bool().Draw(t, "only there") {
			b.nodes = map[string]bool{n.name: true}
		}
		c.change(s, b)
	case "down":
		c.setDown(n, true)
	case "up":
		c.setDown(n, false)
	case "hold":
		n.hold = true
	case "release":
		n.hold = false
	case "taint":
		n.taint = true
	case "untaint":
		n.taint = false
	case "cordon":
		n.cordon = true
	case "uncordon":
		n.cordon = false
	case "others come":
		n.others = true
	case "others go":
		n.others = false
	case "relabel":
		n.gpu, n.zone = !n.gpu, (n.zone+1)%3
	case "delete node":
		c.deleteNode(n.name)
	case "add node":
		c.addNode(fmt.Sprintf("m%d", c.made), c.made%2 == 0)
	case "delete pod":
		if pods := c.sortedPods(); len(pods) > 0 {
			if p := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]; p.deadline.IsZero() {
				p.deadline = c.now.Add(worldGrace)
			}
		}
	case "resume":
		c.ledger = c.ledger.Resume("p0").Resume("p1")
	case "proceed":
		length := time.Duration(rapid.IntRange(1, 24*60).Draw(t, "minutes")) * time.Minute
		c.ledger = must(c.ledger.Proceed(Proceed{Policy: "p0", Reason: "CVE", Since: c.now, Until: c.now.Add(length)}))
	case "end proceed":
		c.ledger, _ = c.ledger.EndProceed("p0")
	case "clock jumps":
		c.clock = "it is an hour ahead"
	case "clock is set":
		c.clock = ""
	}
}

// recover ends the trouble: everything is up, and good templates are applied.
func (c *chaos) recover() {
	c.clock = ""
	c.recovered = true
	for i, n := range c.sortedNodes() {
		n.zone = (i + 1) % 3 // the first wave has a node
		n.hold, n.taint, n.cordon, n.others, n.gpu = false, false, false, false, true
		c.setDown(n, false)
	}
	for _, s := range c.sets {
		c.change(s, behaviour{kind: "good", delay: 20 * time.Second})
	}
}

func (c *chaos) finished() bool {
	for _, n := range c.nodes {
		if n.cordonedBy != "" {
			return false
		}
	}
	return c.done() && len(c.ledger.Visits) == 0
}

// pass is one pass of an agent that has an accident.
func (c *chaos) pass(t *rapid.T, accident string) {
	defer func() {
		if t.Failed() {
			t.FailNow()
		}
	}()
	if accident == "ledger lost" {
		c.ledger = Ledger{}
		c.touched = map[visitKey]bool{}
	}
	obs := c.observe(c.ledger)
	obs.ClockProblem, obs.Supposed, obs.Answers = c.clock, !c.asks, maps.Clone(c.answers)
	if !c.asks { // who supposes that every answer is yes, and evicts, has none
		obs.Answers = nil
	}
	if accident == "stale view" && c.now.Sub(c.seenAt) < doubt/2 {
		answers := obs.Answers
		obs = c.seen
		obs.Ledger, obs.ClockProblem, obs.Answers = c.ledger, c.clock, answers
	} else {
		c.seen, c.seenAt = obs, c.now
	}
	plan := New(obs, c.policies, c.now)
	c.last = plan
	c.answer(t, plan.Questions, accident)
	c.trace = append(c.trace, fmt.Sprintf("%s %s\n%s", c.now.Format(time.RFC3339Nano), accident, formatPlan(plan, &scene{now: c.now, policies: c.policies, finished: len(obs.Ledger.Finished)})))
	checkInvariants(t, obs, c.policies, c.now, plan)
	if len(c.trace)%3 == 0 {
		checkConstantOf(t, obs, c.policies, c.now, plan)
		checkShuffledOf(t, obs, c.policies, c.now, plan)
	}
	if accident == "dies before recording" {
		return
	}
	c.ledger = plan.Ledger
	if accident == "dies before evicting" {
		return
	}
	for _, job := range plan.Jobs {
		if c.jobs[job.Name] == "" {
			c.jobs[job.Name] = Pending
		}
	}
	c.empty(t, plan, accident)
	c.noteService()
	taken := map[string]bool{} // policies that took a node out of service
	minReady := 10 * time.Second
	for i, d := range plan.Decisions {
		switch {
		case d.Action != Evict, accident == "dies half-way" && i%2 == 1:
		case accident == "refused":
			c.ledger = c.ledger.Refuse(d, "not now", c.now)
		default:
			n := c.nodes[d.Node]
			up := n != nil && c.inService(n, c.daemonSets(d.Policy), minReady)
			if c.evict(d) {
				c.touched[visitKey{d.Policy, d.Node}] = true
				taken[d.Policy] = taken[d.Policy] || up
			}
		}
	}
	// I2 in terms of the world: no node goes out of service by our doing when
	// as many are as may be.
	down := map[string]int{}
	for key := range c.touched {
		down[key.policy]++
	}
	for _, p := range plan.Policies {
		if taken[p.Name] && down[p.Name] > p.MaxUnavailable {
			t.Errorf("I2: %d nodes of %s are out of service by our doing, of at most %d: %v", down[p.Name], p.Name, p.MaxUnavailable, c.touched)
		}
	}
}

// answer answers the questions of a plan, unless the agent dies first.
func (c *chaos) answer(t *rapid.T, questions []Question, accident string) {
	if strings.HasPrefix(accident, "dies") {
		c.answers = Answers{}
		return
	}
	for _, q := range questions {
		replies := []Reply{Yes}
		if !c.recovered {
			replies = []Reply{Yes, Yes, No, Unknown}
		}
		a := Answer{Reply: rapid.SampledFrom(replies).Draw(t, "reply"), At: c.now, Message: "so it is"}
		if q.Kind == JobGate {
			a.Reply = c.askJob(q.Job, a.Reply)
		}
		if a.Reply != Yes {
			a.Misses = c.answers[q].Misses + 1
		}
		c.answers[q] = a
	}
}

// askJob is how a Job does. Its result does not change any more, and for a while
// it may not be known.
func (c *chaos) askJob(name string, drawn Reply) Reply {
	switch c.jobs[name] {
	case "":
		return Absent
	case Pending:
		if drawn != Unknown {
			c.jobs[name] = drawn
		}
		return drawn
	}
	return c.jobs[name]
}

func (c *chaos) daemonSets(policy string) []types.NamespacedName {
	for _, p := range c.policies {
		if p.Name == policy {
			return p.DaemonSets
		}
	}
	return nil
}

// noteService forgets the nodes that are back in service or gone, and those
// that a taint has taken out of the policy: what they run when it is lifted is
// as on a new node.
func (c *chaos) noteService() {
	for _, p := range c.policies {
		for key := range c.touched {
			n := c.nodes[key.node]
			if key.policy == p.Name && (n == nil || n.taint || c.inService(n, p.DaemonSets, 10*time.Second)) {
				delete(c.touched, key)
			}
		}
	}
}

// sleep lets time pass until the plan says or something happens. It says
// whether anything ever does.
func (c *chaos) sleep(long bool) bool {
	if len(c.last.Questions) > 0 {
		return true // the answers are there at once
	}
	a := alarm{now: c.now}
	if c.drains() {
		a.at(c.now.Add(time.Second))
	}
	a.at(c.last.NextLook)
	a.at(c.next())
	if a.next.IsZero() {
		return false
	}
	if !long {
		a.at(c.now.Add(700 * time.Millisecond))
	}
	c.now = a.next
	c.step()
	return true
}
