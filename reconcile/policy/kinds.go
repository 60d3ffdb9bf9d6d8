// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/window"
)

// always in a list of windows is any time.
const always = "always"

// windowEntry is a MaintenanceWindow while references are resolved.
type windowEntry struct {
	MaintenanceWindow
	subject subject
	valid   bool // its times can be used
}

// freezeEntry is a Freeze while references are resolved.
type freezeEntry struct {
	Freeze
	subject  subject
	valid    bool
	policies []reference
}

// upgradeEntry is an UpgradePolicy while references are resolved.
type upgradeEntry struct {
	UpgradePolicy
	subject    subject
	daemonSets []daemonSetReference
	windows    []reference
}

// daemonSetReference is one entry of spec.daemonSets: a name or a selector.
type daemonSetReference struct {
	path, namespace, name string
	selector              labels.Selector
}

func readWindow(h header, d Document) windowEntry {
	refuseCalendar(h.spec)
	w, ok := readTimes(h.name, h.spec)
	selector, selectorOK := readSelector(h.spec, "nodeSelector")
	examples := readExamples(h.spec)
	h.spec.done()
	w.Selector = selector
	if ok {
		verify(h.subject, w, examples, explainWindow(w))
	}
	return windowEntry{
		MaintenanceWindow: MaintenanceWindow{Name: h.name, Window: w, Source: d},
		subject:           h.subject, valid: ok && selectorOK,
	}
}

func readFreeze(h header, d Document) freezeEntry {
	w, ok := readFreezeTimes(h.name, h.spec, &d)
	e := freezeEntry{subject: h.subject, valid: ok}
	e.Name, e.Source = h.name, d
	e.Freeze.Freeze = window.Freeze{Window: w, Reason: h.spec.text("reason")}
	e.Scope = oneOf(h.spec, "scope", Upgrades, Everything)
	e.policies = h.spec.references("policies")
	switch {
	case h.spec.has("policies") && len(e.policies) == 0:
		h.spec.errorf("policies", "names no policy: drop it to freeze all of them")
	case e.Scope == Everything && len(e.policies) > 0:
		h.spec.errorf("policies", "cannot limit a freeze of scope Everything, which covers every object: drop it, or say scope: Upgrades")
	}
	examples := readExamples(h.spec)
	h.spec.done()
	if ok {
		verify(h.subject, w, examples, explainFreeze(e.Freeze.Freeze))
	}
	return e
}

func readUpgrade(h header, d Document) upgradeEntry {
	s := h.spec
	e := upgradeEntry{subject: h.subject}
	e.UpgradePolicy = UpgradePolicy{
		Name:               h.name,
		Templates:          oneOf(s, "templates", OnWindow, Immediately),
		MaxUnavailable:     readMaxUnavailable(s, intstr.FromInt32(1)),
		Topology:           readTopology(s),
		CordonedNodes:      oneOf(s, "cordonedNodes", Skip, Visit),
		MinReadySeconds:    int32(s.number("minReadySeconds", 30, limits{0, math.MaxInt32})),
		ReadyTimeout:       s.duration("readyTimeout", 10*time.Minute),
		TerminationTimeout: s.duration("terminationTimeout", 5*time.Minute),
		VisitDuration:      s.duration("visitDuration", 5*time.Minute),
		MaxFailures:        int(s.number("maxFailures", 0, limits{0, math.MaxInt32})),
		OnFailure:          oneOf(s, "onFailure", Halt, Revert),
		Source:             d,
	}
	e.Drain = readDrain(s)
	gates := &gateReader{}
	e.Gates = gates.read(s)
	e.Waves = readWaves(s, e.MaxUnavailable, gates)
	warnFailures(s, e.UpgradePolicy)
	e.daemonSets = readDaemonSets(s)
	e.windows = readWindowNames(s, &e.UpgradePolicy)
	s.done()
	if settle := time.Duration(e.MinReadySeconds) * time.Second; settle >= e.ReadyTimeout {
		s.errorf("readyTimeout", "%s is not longer than minReadySeconds, %s: every node would fail",
			window.FormatDuration(e.ReadyTimeout), window.FormatDuration(settle))
	}
	return e
}

func readMaxUnavailable(s *fields, byDefault intstr.IntOrString) intstr.IntOrString {
	v, ok := s.take("maxUnavailable")
	if !ok {
		return byDefault
	}
	if n, ok := wholeNumber(v); ok && 1 <= n && n <= math.MaxInt32 {
		return intstr.FromInt32(int32(n))
	}
	if text, ok := v.(string); ok && isPercent(text) {
		return intstr.FromString(text)
	}
	s.errorf("maxUnavailable", "is %s: write a number of nodes from 1, or a percentage from 1%% to 100%%", describe(v))
	return byDefault
}

// warnFailures tells where a failed node, which keeps its slot, stops the visits before
// there are enough to halt. How many slots a percentage is depends on the cluster.
func warnFailures(s *fields, p UpgradePolicy) {
	waves := p.Waves
	if len(waves) == 0 {
		waves = []Wave{{MaxUnavailable: p.MaxUnavailable}}
	}
	i := slices.IndexFunc(waves, func(w Wave) bool {
		return w.MaxUnavailable.Type == intstr.Int && w.MaxUnavailable.IntValue() <= p.MaxFailures
	})
	if i < 0 {
		return
	}
	where := ""
	if waves[i].Name != "" {
		where = " of wave " + waves[i].Name
	}
	s.subject.warnf(s.at("maxFailures"), "%d is not less than maxUnavailable%s, %d: failed nodes keep their slots, so that after %d nothing goes on, and the policy neither halts nor goes back",
		p.MaxFailures, where, waves[i].MaxUnavailable.IntValue(), waves[i].MaxUnavailable.IntValue())
}

// isPercent accepts "1%" to "100%".
func isPercent(s string) bool {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok || len(digits) == 0 || len(digits) > 3 || digits[0] == '0' {
		return false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 100
}

func readDaemonSets(s *fields) []daemonSetReference {
	var out []daemonSetReference
	for _, f := range s.atLeastOne("daemonSets", "which DaemonSets, in the order in which one visit upgrades them").objects("daemonSets") {
		r := daemonSetReference{path: f.path, namespace: f.text("namespace"), name: f.text("name")}
		selector, ok := readSelector(f, "selector")
		r.selector = selector
		switch {
		case f.blank("namespace"):
			f.errorf("namespace", "is required")
			ok = false
		case f.has("name") && f.has("selector"):
			f.subject.errorf(f.path, "has both a name and a selector: write one of them")
			ok = false
		case f.blank("name") && !f.has("selector"):
			f.subject.errorf(f.path, "names no DaemonSet: write name or selector")
			ok = false
		}
		f.done()
		if ok && r.namespace != "" && (r.name != "" || r.selector != nil) {
			out = append(out, r)
		}
	}
	return out
}

// readWindowNames reads the union of windows. Any time has to be said, so that
// a list that lost its entries never means it.
func readWindowNames(s *fields, p *UpgradePolicy) []reference {
	refs := s.atLeastOne("windows", "names of MaintenanceWindows, or [always] for any time").references("windows")
	named := slices.DeleteFunc(slices.Clone(refs), func(r reference) bool { return r.name == always })
	switch {
	case len(named) == len(refs):
		return refs
	case len(named) > 0:
		s.errorf("windows", "mixes always with other windows: write [always], or only the others")
	default:
		p.Calendar.Always = true
	}
	return named
}
