// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

var modelNight, modelGPU = func() (window.Window, window.Window) {
	night := must(window.Recurring(window.RecurringSpec{Name: "night", TimeZone: "UTC", Schedule: "0 22 * * *", Duration: "3h"}))
	gpu := must(window.Recurring(window.RecurringSpec{Name: "gpu", TimeZone: "UTC", Schedule: "0 10 * * *", Duration: "2h"}))
	gpu.Selector = labels.SelectorFromSet(labels.Set{"gpu": "true"})
	return night, gpu
}()

// drawPolicies shares the DaemonSets out among up to three policies.
func (m *model) drawPolicies() []policy.UpgradePolicy {
	policies := make([]policy.UpgradePolicy, min(len(m.sets), 1+m.rand.IntN(3)))
	for i := range policies {
		policies[i].Name = fmt.Sprint("p", i)
		m.drawPolicy(&policies[i])
	}
	for i, s := range m.sets {
		p := &policies[i%len(policies)]
		p.DaemonSets = append(p.DaemonSets, s.name)
	}
	return policies
}

// drawPolicy makes everything new but the name and the DaemonSets.
func (m *model) drawPolicy(p *policy.UpgradePolicy) {
	freeze := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	*p = policy.UpgradePolicy{
		Name: p.Name, DaemonSets: p.DaemonSets,
		MaxUnavailable: choose(m, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%")),
		MaxFailures:    choose(m, 0, 0, 1, 2), MinReadySeconds: int32(podMinReady / time.Second),
		ReadyTimeout: 10 * time.Minute, TerminationTimeout: 5 * time.Minute, VisitDuration: 5 * time.Minute,
		Calendar: window.Calendar{Always: m.chance(2)},
	}
	if !p.Calendar.Always {
		p.Calendar.Allows = []window.Window{modelNight, modelGPU}
	}
	if m.chance(2) {
		p.Calendar.Freezes = []window.Freeze{{Window: must(window.OneOff("freeze", freeze, freeze.Add(9*time.Hour)))}}
	}
	p.OnFailure = choose(m, policy.Halt, policy.Revert, policy.Revert)
	p.Templates = choose(m, policy.OnWindow, policy.Immediately)
	m.drawGates(p)
	m.drawDrain(p)
	if m.chance(2) {
		m.drawWaves(p)
	}
	if m.chance(3) {
		p.Topology = policy.Topology{Key: "zone", MaxDomains: 1 + m.rand.IntN(2)}
	}
	if m.chance(3) {
		p.CordonedNodes = policy.Visit
	}
}

func (m *model) drawWaves(p *policy.UpgradePolicy) {
	selectors := []labels.Set{{"gpu": "true"}, {"zone": "z1"}}
	for i := range 1 + m.rand.IntN(2) {
		p.Waves = append(p.Waves, policy.Wave{
			Name: fmt.Sprint("w", i), Selector: labels.SelectorFromSet(selectors[i]),
			MaxUnavailable: choose(m, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%")),
			Soak:           choose(m, 0, 30*time.Minute, 5*time.Hour),
		})
	}
	p.Waves = append(p.Waves, policy.Wave{Name: "rest", MaxUnavailable: p.MaxUnavailable})
}

// disturb does one thing to the cluster, to Git, to the ledger or to an agent.
func (m *model) disturb() {
	if len(m.nodes) == 0 {
		m.addNode(m.rand)
		return
	}
	at := m.rand.IntN(len(m.nodes))
	n, set := m.nodes[at], m.rand.IntN(len(m.sets))
	switch m.rand.IntN(17) {
	case 0, 1, 2:
		m.disturbSet(set, n)
	case 3, 4, 5, 6:
		m.disturbNode(at)
	case 7, 8, 9:
		m.disturbPod()
	case 10, 11:
		m.disturbPolicy()
	case 12:
		m.disturbAgent(m.agents[m.rand.IntN(2)])
	case 13:
		m.refuses, m.fails = m.chance(3), m.chance(6)
		m.say("evictions are refused: %t, fail: %t", m.refuses, m.fails)
	case 14:
		m.disturbLedger()
	case 15:
		m.disturbJob()
	}
}

func (m *model) disturbSet(set int, n *fakeNode) {
	s := m.sets[set]
	switch m.rand.IntN(11) {
	case 0, 1, 2, 3:
		b := podBehaviour{kind: choose(m, "good", "good", "good", "crash", "pull", "never", "ends", "flaps"), delay: time.Duration(1+m.rand.IntN(300)) * time.Second}
		if m.chance(2) {
			b.node = n.Name
		}
		s.commit(b)
		m.say("Git has %s of %s: %+v", s.git.revision, s.key, b)
		m.bringPerhaps(set)
	case 4:
		s.commitAgain(choose(m, s.revisions...))
		m.say("Git has %s of %s again", s.git.revision, s.key)
		m.bringPerhaps(set)
	case 5:
		s.refuses = true
		m.say("no template of %s can be applied", s.key)
	case 6:
		s.refuses = false
		m.say("templates of %s can be applied", s.key)
	case 7:
		s.hold = "held"
		m.say("%s is held", s.key)
	case 8:
		s.hold = ""
		m.say("%s is not held", s.key)
	case 9:
		m.bring(set, choose(m, s.revisions...))
		m.say("somebody gives %s the template of %s", s.key, s.applied)
	case 10:
		m.forgetRevision(s, choose(m, s.revisions...))
	}
}

func (m *model) disturbNode(at int) {
	n := m.nodes[at]
	switch m.rand.IntN(17) {
	case 0:
		m.setReady(n, false)
		m.say("%s is not Ready", n.Name)
	case 1, 2:
		m.setReady(n, true)
		m.say("%s is Ready", n.Name)
	case 3:
		n.Hold = choose(m, "", "disk")
		m.say("%s hold %q", n.Name, n.Hold)
	case 4:
		n.taint("dedicated", m.chance(2))
		m.say("%s taints %v", n.Name, n.Taints)
	case 5:
		n.taint("dedicated", false)
		m.say("%s taints %v", n.Name, n.Taints)
	case 6:
		n.zone = m.rand.IntN(3)
		n.label()
		m.say("%s labels %v", n.Name, n.Labels)
	case 7:
		n.gpu = 1 - n.gpu
		n.label()
		m.say("%s labels %v", n.Name, n.Labels)
	case 8:
		m.disturbCordon(n)
	case 9:
		n.Maintenance = choose(m, "", "others")
		n.AtWork = n.Maintenance != "" && m.chance(2)
		m.say("%s maintenance %q", n.Name, n.Maintenance)
	case 10:
		n.Deleting = m.chance(2)
		m.say("%s is being deleted %t", n.Name, n.Deleting)
	case 11:
		m.deleteNode(at)
		m.say("%s is deleted", n.Name)
	case 14, 15:
		m.disturbGuests(n)
	case 16:
		n.fits(m.chance(2))
		m.say("%s conditions %v", n.Name, n.Conditions)
	case 12, 13:
		if len(m.nodes) < 8 {
			m.say("%s joins", m.addNode(m.rand).Name)
		}
	}
}

func (m *model) disturbPod() {
	if len(m.pods) == 0 {
		return
	}
	p := m.pods[m.rand.IntN(len(m.pods))]
	switch m.rand.IntN(7) {
	case 0, 1:
		m.delete(p)
		m.say("pod %s of %s on %s is deleted", p.UID, p.Owner, p.Node)
	case 2: // evicted by its kubelet
		p.Phase, p.Ready, p.ReadySince, p.UnreadySince = corev1.PodFailed, false, time.Time{}, m.now
		p.touch()
		m.say("pod %s of %s on %s has Failed", p.UID, p.Owner, p.Node)
	case 3, 4:
		p.brokenUntil = m.now.Add(time.Duration(1+m.rand.IntN(60)) * time.Minute)
		m.say("pod %s of %s on %s crashes until %s", p.UID, p.Owner, p.Node, p.brokenUntil)
	case 5:
		p.stuck = true
		m.say("pod %s of %s on %s will not end", p.UID, p.Owner, p.Node)
	case 6:
		for _, p := range m.pods {
			p.stuck, p.Finalizers = false, nil
		}
		m.say("pods end")
	}
}

func (m *model) disturbPolicy() {
	i := m.rand.IntN(max(1, len(m.policies)))
	m.policies = slices.Clone(m.policies) // those before are in somebody's view
	switch {
	case len(m.policies) > 1 && m.chance(8):
		m.removed = append(m.removed, m.policies[i])
		m.say("policy %s is removed", m.policies[i].Name)
		m.policies = slices.Delete(m.policies, i, i+1)
	case len(m.removed) > 0 && m.chance(2):
		m.policies = append(m.policies, m.removed...)
		m.removed = nil
		slices.SortFunc(m.policies, func(a, b policy.UpgradePolicy) int { return cmp.Compare(a.Name, b.Name) })
		m.say("policies come back")
	case m.chance(2):
		m.drawPolicy(&m.policies[i])
		m.truth.forgetSoaks(m.policies[i].Name, true)
		m.say("policy %s is another", m.policies[i].Name)
	default:
		m.policies[i].MaxUnavailable = choose(m, intstr.FromInt32(1), intstr.FromInt32(3))
		m.say("policy %s: maxUnavailable %v", m.policies[i].Name, &m.policies[i].MaxUnavailable)
	}
}

func (m *model) disturbAgent(a *fakeAgent) {
	a.offset = choose(m, 0, 0, -4*time.Second, 4*time.Second, -20*time.Second, 3*time.Hour, 30*time.Hour)
	m.say("a clock is off by %s", a.offset)
	if m.chance(4) {
		m.crash(a)
		*a = *newFakeAgent()
		a.blind = m.chance(2)
		m.say("an agent starts anew, Git answers: %t", !a.blind)
	} else {
		a.blind = false
	}
}

// disturbLedger is what people say, and what befalls the ledger.
func (m *model) disturbLedger() {
	p := choose(m, m.policies...).Name
	switch m.rand.IntN(8) {
	case 0, 1, 2:
		m.say("%s is resumed", p)
		m.truth.resumed(m, p)
		m.write(m.ledger.Resume(p))
	case 3:
		m.say("%s is paused", p)
		m.write(m.ledger.Pause(Pause{Policy: p, Reason: "lunch", Since: m.now}))
	case 4, 5:
		m.say("%s proceeds", p)
		m.write(must(m.ledger.Proceed(Proceed{Policy: p, Reason: "CVE", Since: m.now, Until: m.now.Add(time.Duration(1+m.rand.IntN(24*60)) * time.Minute)})))
	case 6:
		m.say("%s proceeds no more", p)
		l, _ := m.ledger.EndProceed(p)
		m.write(l)
	case 7:
		m.say("the ledger is lost")
		m.write(Ledger{})
		m.truth.lost()
		m.late, m.lateDrains = nil, nil
		for _, a := range m.agents {
			a.flights = nil
		}
	}
}
