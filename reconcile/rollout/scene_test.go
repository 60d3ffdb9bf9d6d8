// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

const day = 24 * time.Hour

// scene is what a case observes.
type scene struct {
	t        *testing.T
	now      time.Time
	observed Observed
	policies []policy.UpgradePolicy
	windows  map[string]window.Window
	freezes  []window.Freeze
	finished int // visits in the ledger of the case
}

// readScene reads lines of words; a word may be "key=value" or, with an age,
// "key=10s". See the readers below for each kind of line.
func readScene(t *testing.T, text string) *scene {
	t.Helper()
	s := &scene{t: t, now: instant(t, "2026-03-02T22:00:00Z"), windows: map[string]window.Window{}}
	s.observed.Commit, s.observed.Instance, s.observed.Supposed = "c1", "us", true
	s.observed.Ledger.Governed = map[string]Governance{}
	lines := strings.Split(text, "\n")
	for pass := range 2 { // policies need windows and freezes, which may follow
		for _, line := range lines {
			if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
				continue
			}
			w := words(line)
			if early := w[0] == "now" || w[0] == "window" || w[0] == "freeze" || w[0] == "daemonset"; early == (pass == 0) {
				s.read(w)
			}
		}
	}
	for _, p := range s.policies { // as the pass before has recorded it, unless the ledger is lost
		for _, name := range p.DaemonSets {
			if g, ok := s.observed.Ledger.Governed[name.String()]; ok {
				g.Policy = p.Name
				s.observed.Ledger.Governed[name.String()] = g
			}
		}
	}
	s.finished = len(s.observed.Ledger.Finished)
	return s
}

// words splits a line at blanks outside parentheses and quotes.
func words(line string) []string {
	depth, quoted := 0, false
	return strings.FieldsFunc(line, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case '"':
			quoted = !quoted
		}
		return r == ' ' && depth == 0 && !quoted
	})
}

func (s *scene) read(w []string) {
	s.t.Helper()
	l := &s.observed.Ledger
	switch w[0] {
	case "now":
		s.now = instant(s.t, w[1])
	case "window":
		s.windows[w[1]] = s.readWindow(w)
	case "freeze":
		s.freezes = append(s.freezes, window.Freeze{Window: s.readWindow(w)})
	case "policy":
		s.readPolicy(w)
	case "daemonset":
		s.readDaemonSet(w)
	case "node":
		s.readNode(w)
	case "visit":
		l.Visits = append(l.Visits, s.readVisit(w))
	case "measured":
		for range number(s.t, w[2]) {
			l.Finished = append(l.Finished, s.readMeasured(w))
		}
	case "failure": // failure POLICY NODE DAEMONSET REVISION [acknowledged] [gate=GATE]
		l.Failures = append(l.Failures, Failure{Policy: w[1], Node: w[2], DaemonSet: "ns/" + w[3], Revision: w[4],
			Message: "it broke", At: s.now.Add(-time.Hour), Acknowledged: slices.Contains(w, "acknowledged"),
			Gate: strings.TrimPrefix(strings.Join(slices.DeleteFunc(w[5:], func(word string) bool { return word == "acknowledged" }), ""), "gate=")})
	case "refusal": // refusal POLICY NODE DAEMONSET REVISION AGE [TIMES [drain|drained|errored|gate=GATE]]
		again := 0
		if len(w) > 6 {
			again = number(s.t, w[6]) - 1
		}
		_, gate, _ := strings.Cut(w[len(w)-1], "gate=")
		l.Refusals = append(l.Refusals, Refusal{Gate: gate, Again: again, Errored: slices.Contains(w, "errored"), Drain: slices.Contains(w, "drain"), Drained: slices.Contains(w, "drained"), Policy: w[1], Node: w[2], DaemonSet: "ns/" + w[3],
			Pod: uid(w[2], w[3], w[4]), Message: "budget cni-pdb", At: s.now.Add(-age(s.t, w[5]))})
	case "underway": // underway NODE DAEMONSET REVISION
		s.observed.UnderWay = map[types.UID]bool{uid(w[1], w[2], w[3]): true}
	case "queued": // queued NODE DAEMONSET REVISION
		pods := map[types.UID]bool{uid(w[1], w[2], w[3]): true}
		s.observed.UnderWay, s.observed.Queued = pods, pods
	case "settled": // settled POLICY WAVE AGE [soaked] [REVISION]
		l.Waves = append(l.Waves, s.readSettled(w))
	case "paused":
		*l = l.Pause(Pause{Policy: w[1], Reason: strings.Join(w[2:], " "), Since: s.now.Add(-time.Hour)})
	case "proceed": // proceed POLICY SINCE-AGE FOR
		since := s.now.Add(-age(s.t, w[2]))
		l.Proceeds = append(l.Proceeds, Proceed{Policy: w[1], Reason: "CVE", Since: since, Until: since.Add(age(s.t, w[3]))})
	case "clock": // clock WHY
		s.observed.ClockProblem = strings.Join(w[1:], " ")
	case "asks":
		s.observed.Supposed = false
	case "answer":
		s.readAnswer(w)
	case "objection":
		l.Objections = append(l.Objections, s.readObjection(w))
	case "reversal": // reversal POLICY DAEMONSET FROM>TO TEMPLATE
		from, to, _ := strings.Cut(w[3], ">")
		l.Reversals = append(l.Reversals, Reversal{Policy: w[1], DaemonSet: "ns/" + w[2], Commit: "c0", Template: w[4],
			From: from, To: to, Reason: "it broke", Since: s.now.Add(-time.Hour)})
	case "term": // term NUMBER AGE
		l.Term = Term{Number: number(s.t, w[1]), Since: s.now.Add(-age(s.t, w[2]))}
	case "lost":
		*l = Ledger{}
	default:
		s.t.Fatalf("unknown line %q", w)
	}
}

// readWindow reads "window NAME FROM TO [LABEL=VALUE]".
func (s *scene) readWindow(w []string) window.Window {
	s.t.Helper()
	win, err := window.OneOff(w[1], instant(s.t, w[2]), instant(s.t, w[3]))
	if err != nil {
		s.t.Fatal(err)
	}
	if len(w) > 4 {
		win.Selector = labels.SelectorFromSet(labelSet(w[4]))
	}
	return win
}

// readPolicy reads "policy NAME DAEMONSET,DAEMONSET [windows=A,B] [max=N]
// [failures=N] [visit=5m] [wave=NAME(nodes=LABEL=VALUE,max=N,soak=24h)]...
// [topology=LABEL:N] [cordoned=Visit] [onfailure=Revert]". Without windows it is always open.
func (s *scene) readPolicy(w []string) {
	s.t.Helper()
	p := policy.UpgradePolicy{
		Name: w[1], MaxUnavailable: intstr.FromInt32(1), MinReadySeconds: 30, ReadyTimeout: 10 * time.Minute,
		TerminationTimeout: 5 * time.Minute, VisitDuration: 5 * time.Minute,
		Calendar: window.Calendar{Always: true, Freezes: s.freezes},
	}
	for name := range strings.SplitSeq(w[2], ",") {
		p.DaemonSets = append(p.DaemonSets, nameOf(name))
	}
	for _, word := range w[3:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "windows":
			p.Calendar.Always = false
			for name := range strings.SplitSeq(value, ",") {
				p.Calendar.Allows = append(p.Calendar.Allows, s.windows[name])
			}
		case "max":
			p.MaxUnavailable = intstr.Parse(value)
		case "drain":
			p.Drain = &policy.Drain{Timeout: age(s.t, value)}
		case "gate":
			s.readGate(&p, value)
		case "onfailure":
			p.OnFailure = policy.OnFailure(value)
		case "failures":
			p.MaxFailures = number(s.t, value)
		case "visit":
			p.VisitDuration = age(s.t, value)
		case "wave":
			p.Waves = append(p.Waves, s.readWave(value, p.MaxUnavailable))
		case "topology":
			key, most, _ := strings.Cut(value, ":")
			p.Topology = policy.Topology{Key: key, MaxDomains: number(s.t, most)}
		case "cordoned":
			p.CordonedNodes = policy.CordonedNodes(value)
		default:
			s.t.Fatalf("policy: unknown word %q", word)
		}
	}
	s.policies = append(s.policies, p)
}

// readWave reads "NAME(nodes=LABEL=VALUE,max=N,soak=24h)".
func (s *scene) readWave(text string, byDefault intstr.IntOrString) policy.Wave {
	s.t.Helper()
	name, rest, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	w := policy.Wave{Name: name, MaxUnavailable: byDefault}
	for attribute := range strings.SplitSeq(rest, ",") {
		switch key, value, _ := strings.Cut(attribute, "="); key {
		case "":
		case "nodes":
			w.Selector = labels.SelectorFromSet(labelSet(value))
		case "max":
			w.MaxUnavailable = intstr.Parse(value)
		case "soak":
			w.Soak = age(s.t, value)
		default:
			s.t.Fatalf("wave: unknown attribute %q", attribute)
		}
	}
	return w
}

// readSettled reads "settled POLICY WAVE AGE [soaked] [REVISION]": on the revision, or on
// those that the DaemonSets have.
func (s *scene) readSettled(w []string) SettledWave {
	s.t.Helper()
	settled := SettledWave{Policy: w[1], Wave: w[2], Revisions: map[string]string{}, Settled: s.now.Add(-age(s.t, w[3]))}
	for _, p := range s.policies {
		for _, wave := range p.Waves {
			if p.Name == w[1] && wave.Name == w[2] && wave.Selector != nil {
				settled.Nodes = wave.Selector.String()
			}
		}
		for _, d := range s.observed.DaemonSets {
			if p.Name == w[1] && slices.Contains(p.DaemonSets, d.Name) {
				settled.Revisions[d.Name.String()] = d.Revision
			}
		}
	}
	for _, word := range w[4:] {
		if settled.Soaked = word == "soaked"; settled.Soaked {
			continue
		}
		for name := range settled.Revisions {
			settled.Revisions[name] = word
		}
	}
	return settled
}

// readDaemonSet reads "daemonset NAME REVISION [proven] [unobserved] [pending]
// [rolling] [deleting] [hold=WHY] [minready=60s] [needs=CPU] [locks=NODE or NODE:TIME-LEFT]
// [select=LABEL=VALUE] [settled=REVISION] [kept=REVISION,REVISION] [git=TEMPLATE] [since=AGE]
// [generation=N] [created=AGE]".
func (s *scene) readDaemonSet(w []string) {
	s.t.Helper()
	d := health.DaemonSet{
		Name: nameOf(w[1]), UID: types.UID("ds-" + w[1]), Generation: 2, Revision: w[2],
		RevisionObserved: true, OnDelete: true, Template: &corev1.PodSpec{},
	}
	governed := Governance{}
	for _, word := range w[3:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "proven":
			governed.Proven = w[2]
		case "settled":
			governed.Settled = value
		case "since":
			governed.Revision, governed.Since = w[2], s.now.Add(-age(s.t, value))
			governed.Before = governed.Since.Add(-time.Hour)
		case "kept":
			for hash := range strings.SplitSeq(value, ",") {
				d.History = append(d.History, health.Revision{Owner: d.UID, Hash: hash})
			}
		case "git":
			if s.observed.Rendered == nil {
				s.observed.Rendered = map[types.NamespacedName]string{}
			}
			s.observed.Rendered[d.Name] = value
		case "unobserved":
			d.RevisionObserved = false
		case "pending":
			d.TemplatePending = true
		case "rolling":
			d.OnDelete = false
		case "deleting":
			d.Deleting = true
		case "hold":
			d.Hold = value
		case "minready":
			d.MinReadySeconds = int32(age(s.t, value) / time.Second)
		case "needs":
			d.Template.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}}}}
		case "locks":
			node, left, ends := strings.Cut(value, ":")
			lock := health.Lock{Node: node}
			if ends {
				lock.Until = s.now.Add(age(s.t, left))
			}
			d.Locks = append(d.Locks, lock)
		case "generation":
			d.TemplateGeneration = int64(number(s.t, value))
		case "created":
			d.Created = s.now.Add(-age(s.t, value))
		case "select":
			d.Template.NodeSelector = labelSet(value)
		default:
			s.t.Fatalf("daemonset: unknown word %q", word)
		}
	}
	s.observed.DaemonSets = append(s.observed.DaemonSets, d)
	s.observed.Ledger.Governed[d.Name.String()] = governed
}

// readNode reads "node NAME [DAEMONSET=POD+POD]... [notready=AGE] [ready=AGE]
// [deleting] [cordoned] [maintenance=WHO, or reboot-wanted] [hold=WHY] [taint=KEY:EFFECT]... [label=KEY=VALUE]...";
// see readPod.
func (s *scene) readNode(w []string) {
	s.t.Helper()
	n := health.Node{Name: w[1], Ready: true, Labels: map[string]string{}}
	for _, word := range w[2:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "notready", "ready":
			n.Ready = key == "ready"
			if !n.Ready {
				n.NotReadyReason = "kubelet stopped posting node status"
			}
			if value != "" {
				n.Since = s.now.Add(-age(s.t, value))
			}
		case "deleting":
			n.Deleting = true
		case "created":
			n.Created = s.now.Add(-age(s.t, value))
		case "maintenance":
			n.Maintenance, n.AtWork = value, value != "reboot-wanted"
		case "cordoned":
			n.Unschedulable = true
			n.Taints = append(n.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		case "hold":
			n.Hold = value
		case "taint":
			key, effect, _ := strings.Cut(value, ":")
			n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		case "cordonedby":
			n.Unschedulable, n.CordonedBy = true, value
		case "cordontaken":
			n.CordonTakenBy = value
		case "uncordoned": // by hand, after cordonedby
			n.Unschedulable = false
		case "condition":
			kind, status, _ := strings.Cut(value, ":")
			n.Conditions = append(n.Conditions, health.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status)})
		case "label":
			maps.Copy(n.Labels, labelSet(value))
		default:
			for pod := range strings.SplitSeq(value, "+") {
				s.observed.Pods = append(s.observed.Pods, new(s.readPod(w[1], key, pod)))
			}
		}
	}
	s.observed.Nodes = append(s.observed.Nodes, n)
}

// readPod reads "REVISION(ATTRIBUTE,ATTRIBUTE)": created=AGE, ready=AGE,
// unready, unready=AGE, deleting=AGE (since the grace period ended; negative
// while it runs), finalizer=NAME, needs=MILLICPU, phase=PHASE, problem=REASON, generation=N. Without any it was created a day
// ago and is Ready since.
func (s *scene) readPod(node, daemonSet, text string) health.Pod {
	s.t.Helper()
	hash, rest, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	p := health.Pod{
		Name: types.NamespacedName{Namespace: "ns", Name: string(uid(node, daemonSet, hash))}, UID: uid(node, daemonSet, hash),
		ResourceVersion: "7", Node: node, Owner: types.UID("ds-" + daemonSet), Hash: hash, Phase: corev1.PodRunning,
		Created: s.now.Add(-day), Ready: true, ReadySince: s.now.Add(-day), GracePeriod: 30 * time.Second,
	}
	for attribute := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(attribute, "=")
		switch key {
		case "":
		case "created":
			p.Created = s.now.Add(-age(s.t, value))
			if p.ReadySince.Before(p.Created) {
				p.ReadySince = p.Created
			}
		case "ready":
			p.ReadySince = s.now.Add(-age(s.t, value))
		case "unready":
			p.Ready, p.ReadySince = false, time.Time{}
			if value != "" {
				p.UnreadySince = s.now.Add(-age(s.t, value))
			}
		case "disrupted":
			p.Disruption = value
		case "deleting":
			p.Deleting, p.DeletionDeadline = true, s.now.Add(-age(s.t, value))
		case "needs":
			p.Needs = &health.Needs{Requests: []health.Request{{Name: corev1.ResourceCPU, Milli: int64(number(s.t, value))}}}
		case "generation":
			p.TemplateGeneration = int64(number(s.t, value))
		case "finalizer":
			p.Finalizers = append(p.Finalizers, value)
		case "phase":
			p.Phase, p.Ready = corev1.PodPhase(value), false
		case "problem":
			p.Problem, p.Ready = health.Problem{Reason: value, Message: "container agent"}, false
		default:
			s.t.Fatalf("pod: unknown attribute %q", attribute)
		}
	}
	return p
}

func uid(node, daemonSet, hash string) types.UID {
	return types.UID(node + "-" + daemonSet + "-" + hash)
}

func nameOf(daemonSet string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: daemonSet}
}

func labelSet(text string) map[string]string {
	key, value, _ := strings.Cut(text, "=")
	return map[string]string{key: value}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func age(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
