// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// gitTemplate is the one that Git has, by the revision that it makes.
type gitTemplate struct {
	revision string
	commit   int // how often it has changed
}

// digest names a template as Git has it.
func (g gitTemplate) digest() string { return "t" + g.revision }

// commitAgain gives Git a template that there was before.
func (s *fakeSet) commitAgain(revision string) {
	if s.git.revision != revision {
		s.git = gitTemplate{revision, s.git.commit + 1}
	}
}

func keeps(kept []health.Revision, revision string) bool {
	return slices.ContainsFunc(kept, func(r health.Revision) bool { return r.Hash == revision })
}

// bring applies a template, whoever does.
func (m *model) bring(set int, revision string) {
	before := m.sets[set].apply(revision, m.now)
	m.truth.revised(m, set, before)
}

// bringPerhaps lets what Git has be there already when somebody sees it.
func (m *model) bringPerhaps(set int) {
	if s := m.sets[set]; !s.refuses && m.chance(2) {
		m.bring(set, s.git.revision)
		m.say("%s is applied", s.applied)
	}
}

// forgetRevision lets one go that nothing needs.
func (m *model) forgetRevision(s *fakeSet, revision string) {
	if s.applied == revision || s.live == revision || slices.ContainsFunc(m.pods, func(p *fakePod) bool { return p.Owner == s.uid && p.Hash == revision }) {
		return
	}
	s.kept = slices.DeleteFunc(slices.Clone(s.kept), func(r health.Revision) bool { return r.Hash == revision })
	m.say("%s of %s is not kept", revision, s.key)
}

// templates are those that are applied, and those that Git has.
func (m *model) templates() (applied []string, git []gitTemplate) {
	for _, s := range m.sets {
		applied, git = append(applied, s.applied), append(git, s.git)
	}
	return applied, git
}

// compareTemplates tells a plan what an agent knows of templates, and finds those that
// are to be applied: what Git has or, where that is marked bad, what the DaemonSet goes
// back to.
func (m *model) compareTemplates(a *fakeAgent, obs *Observed) (wanted []string) {
	obs.DaemonSets = slices.Clone(obs.DaemonSets)
	wanted = make([]string, len(m.sets))
	for i, s := range m.sets {
		d, git, mark := &obs.DaemonSets[i], a.git[i], obs.Ledger.reversal(s.key)
		if a.blind {
			d.TemplatePending = mark == nil && git.revision != a.applied[i]
			continue
		}
		if mark != nil || mayGoBack(a.policies, s.name) {
			if obs.Rendered == nil {
				obs.Rendered = map[types.NamespacedName]string{}
			}
			obs.Rendered[s.name] = git.digest()
		}
		want, known := git.revision, true
		if mark != nil && mark.Marks(git.digest()) {
			if known = keeps(d.History, mark.To); known {
				want = mark.To
			}
		}
		if d.TemplatePending = want != a.applied[i]; d.TemplatePending && known {
			wanted[i] = want
		}
	}
	return wanted
}

func mayGoBack(policies []policy.UpgradePolicy, set types.NamespacedName) bool {
	p, governed := policy.Set{Upgrades: policies}.For(set)
	return governed && p.OnFailure == policy.Revert
}

// applyTemplates does so where the planner lets it.
func (m *model) applyTemplates(a *fakeAgent, p *pendingPlan) {
	rules := Rules{Policies: policy.Set{Upgrades: p.policies}, Ledger: p.obs.Ledger, ClockProblem: p.obs.ClockProblem}
	for i, want := range p.wanted {
		s := m.sets[i]
		if want == "" || want == s.applied || s.refuses || !Gate(Change{s.name, TemplateChange}, rules, m.now.Add(a.offset)).Allowed {
			continue
		}
		m.bring(i, want)
		m.say("%s of %s is applied", want, s.key)
	}
}

// applied says that every DaemonSet is as it is to be.
func (m *model) applied() bool {
	return !slices.ContainsFunc(m.sets, func(s *fakeSet) bool {
		want := s.git.revision
		if mark := m.ledger.reversal(s.key); mark != nil && mark.Marks(s.git.digest()) {
			want = mark.To
		}
		return s.applied != want
	})
}

// mayStayBack says that a DaemonSet goes back, or has, to what works, so that nobody
// needs to change Git.
func (m *model) mayStayBack(s *fakeSet) bool {
	mark := m.ledger.reversal(s.key)
	return mark != nil && mark.Marks(s.git.digest()) && keeps(s.kept, mark.To) && s.behaviour[mark.To].kind == "good"
}

// mend lets nothing of before be in the way of one that goes back.
func (m *model) mend(set int, l Ledger) Ledger {
	s := m.sets[set]
	m.say("%s stays back", s.key)
	for revision, b := range s.behaviour {
		if b.kind == "ends" { // again and again, until a window opens
			b.kind = "crash"
			s.behaviour[revision] = b
		}
	}
	for _, p := range m.pods {
		if p.set == set {
			p.brokenUntil, p.Phase = time.Time{}, corev1.PodRunning
			m.live(p) // before it is seen again
		}
	}
	l.Failures = slices.Clone(l.Failures)
	for i := range l.Failures {
		if f := &l.Failures[i]; f.DaemonSet == s.key && f.Revision == l.reversal(s.key).To {
			f.Acknowledged = true
		}
	}
	return l
}

// relapse gives Git a template that works nowhere, or not on one node, after everything
// has settled. It is for a DaemonSet that goes back on the first failure.
func (m *model) relapse() *fakeSet {
	m.draw(3)
	if len(m.failures) > 0 || len(m.nodes) == 0 || !m.relapses {
		return nil
	}
	for _, p := range m.policies {
		if p.OnFailure != policy.Revert || p.MaxFailures > 0 {
			continue
		}
		name := choose(m, p.DaemonSets...)
		s := m.sets[slices.IndexFunc(m.sets, func(s *fakeSet) bool { return s.name == name })]
		if m.ledger.Governed[s.key].Settled != s.applied {
			return nil // it would go back further, to what may not work any more
		}
		b := podBehaviour{kind: choose(m, "crash", "pull", "never"), delay: time.Duration(1+m.rand.IntN(60)) * time.Second}
		if m.chance(2) {
			b.node = choose(m, m.nodes...).Name
		}
		s.commit(b)
		m.say("Git has %s of %s when all is well: %+v", s.git.revision, s.key, b)
		return s
	}
	return nil
}

// checkBack: I14. What was well is so again.
func (m *model) checkBack(s *fakeSet, good string) {
	if len(m.failures) == 0 && (s.applied != good || m.ledger.reversal(s.key) == nil) {
		m.Errorf("I14: %s is at %s and was to go back from %s to %s", s.key, s.applied, s.git.revision, good)
	}
}

// marked: I14. A commit is marked bad once, until the mark is taken off, and stays so
// while Git has the template.
func (t *truth) marked(m *model, p *pendingPlan) {
	for i, s := range m.sets {
		before, after, seen := p.obs.Ledger.reversal(s.key), p.plan.Ledger.reversal(s.key), p.git[i].commit
		switch {
		case after != nil && (before == nil || !before.Since.Equal(after.Since)):
			if t.marks[i] == seen {
				m.Errorf("I14: %s goes back from %s to %s, and did so before", s.key, after.From, after.To)
			}
			t.marks[i] = seen
		case before == nil || after != nil:
		case !keeps(p.obs.DaemonSets[i].History, before.To):
			t.marks[i] = 0 // it cannot go back, and has not
		case seen <= t.marks[i]:
			m.Errorf("I14: %s forgets that it went back from %s to %s", s.key, before.From, before.To)
		}
	}
}

// resumed forgets what the planner was told to forget.
func (t *truth) resumed(m *model, policy string) {
	for i, s := range m.sets {
		if mark := m.ledger.reversal(s.key); mark != nil && mark.Policy == policy {
			t.marks[i] = 0
		}
	}
}

// reversals: I14. A reversal begins only in a policy that is to go back and that
// failures halt, only to what all nodes had settled on, and stays while Git has the
// template. Until it ends nothing is evicted but what is to go back.
func (c *check) reversals(t reporter, p Plan) {
	t.Helper()
	for _, r := range c.obs.Ledger.Reversals {
		c.stays(t, p, r)
	}
	for _, r := range p.Ledger.Reversals {
		if before := c.obs.Ledger.reversal(r.DaemonSet); before == nil || !before.Since.Equal(r.Since) {
			c.begins(t, p, r)
		}
	}
	for key, g := range p.Ledger.Governed {
		if g.Settled != c.obs.Ledger.Governed[key].Settled && (g.Settled != c.sets[key].Revision || !c.allSettled(key)) {
			t.Errorf("I14: %s of %s is on record as settled on all nodes, and is not", g.Settled, key)
		}
	}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		r := p.Ledger.reversal(d.DaemonSet.String())
		if d.Action == Evict && r != nil && (c.sets[r.DaemonSet].Revision != r.To || c.hashOf(d.Pod.UID) == r.To) {
			t.Errorf("I14: evicts %s of %s on %s, and %s goes back to %s", d.Pod.UID, c.hashOf(d.Pod.UID), d.Node, r.DaemonSet, r.To)
		}
	}
}

// goesBack says that what is evicted is of the revision that the DaemonSet goes back from.
func (c *check) goesBack(d Decision) bool {
	r := c.obs.Ledger.reversal(d.DaemonSet.String())
	return r != nil && d.Pod != nil && c.sets[r.DaemonSet].Revision == r.To && c.hashOf(d.Pod.UID) == r.From
}

func (c *check) hashOf(pod types.UID) string {
	i := slices.IndexFunc(c.obs.Pods, func(p *health.Pod) bool { return p.UID == pod })
	if i < 0 {
		return ""
	}
	return c.obs.Pods[i].Hash
}

// stays holds a reversal on record against what Git has.
func (c *check) stays(t reporter, p Plan, r Reversal) {
	t.Helper()
	set, after := c.sets[r.DaemonSet], p.Ledger.reversal(r.DaemonSet)
	switch inGit := c.obs.Rendered[set.Name]; {
	case inGit != "" && inGit != r.Template:
		if after != nil && after.Template == r.Template {
			t.Errorf("I14: %s of %s is marked bad, and Git has %s", r.Template, r.DaemonSet, inGit)
		}
	case !keeps(set.History, r.To):
	case after == nil || after.Template != r.Template || after.From != r.From || after.To != r.To:
		t.Errorf("I14: it is forgotten that %s goes back to %s: %+v", r.DaemonSet, r.To, after)
	}
}

func (c *check) begins(t reporter, p Plan, r Reversal) {
	t.Helper()
	pol, set := c.policies[r.Policy], c.sets[r.DaemonSet]
	var failed []string
	broke := false
	for _, f := range p.Ledger.Failures {
		if f.Policy == r.Policy && !f.Acknowledged && lists(pol, f.DaemonSet) {
			if broke = broke || (f.DaemonSet == r.DaemonSet && f.Revision == r.From); !slices.Contains(failed, f.Node) {
				failed = append(failed, f.Node)
			}
		}
	}
	switch {
	case pol.OnFailure != policy.Revert:
		t.Errorf("I14: %s goes back, and policy %s is not to", r.DaemonSet, r.Policy)
	case len(failed) <= pol.MaxFailures, !broke:
		t.Errorf("I14: %s goes back from %s, and %v have failed of at most %d", r.DaemonSet, r.From, failed, pol.MaxFailures)
	case set.Revision != r.From, !set.RevisionObserved, set.TemplatePending, c.obs.Rendered[set.Name] != r.Template:
		t.Errorf("I14: %s goes back from %s, and that is not of the template %s in Git: %+v", r.DaemonSet, r.From, r.Template, set)
	case r.To != p.Ledger.Governed[r.DaemonSet].Settled, r.To == r.From, !keeps(set.History, r.To):
		t.Errorf("I14: %s goes back from %s to %s, on which not all nodes had settled", r.DaemonSet, r.From, r.To)
	}
}

// allSettled says that every node that is Ready, and on which the DaemonSet should run,
// has an available pod of its revision, and that there is one.
func (c *check) allSettled(daemonSet string) bool {
	set := c.sets[daemonSet]
	settled := 0
	for _, p := range c.policies {
		if !lists(p, daemonSet) {
			continue
		}
		limits := health.Limits{MinReady: time.Duration(p.MinReadySeconds) * time.Second}
		for name, n := range c.nodes {
			available := slices.ContainsFunc(c.obs.Pods, func(o *health.Pod) bool {
				return o.Node == name && o.Owner == set.UID && set.UpToDate(o) && limits.Available(&set, o, c.now)
			})
			if !available && n.Ready && health.ShouldRun(n, set).ShouldRun {
				return false
			}
			settled += one(available)
		}
	}
	return settled > 0
}
