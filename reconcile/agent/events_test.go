// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// street is what a crier hears of.
type street struct {
	crier  *crier
	now    time.Time
	ledger rollout.Ledger
	halted string

	decisions []rollout.Decision
}

func newStreet() *street {
	s := &street{now: epoch}
	s.crier = newCrier(nil, "agent-1", func() time.Time { return s.now }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	return s
}

// pass tells the crier of one, and returns what it says.
func (s *street) pass(change func(*rollout.Ledger)) []string {
	report := reconcile.Report{}
	for _, name := range []string{"cni", "csi"} {
		report.Observation.DaemonSets = append(report.Observation.DaemonSets, health.DaemonSet{
			Name: types.NamespacedName{Namespace: "agents", Name: name}, UID: types.UID(name),
		})
	}
	network := policy.UpgradePolicy{Name: "network"}
	for _, name := range []string{"cni", "csi", "gone"} {
		network.DaemonSets = append(network.DaemonSets, types.NamespacedName{Namespace: "agents", Name: name})
	}
	report.Observation.Policies.Upgrades = []policy.UpgradePolicy{network}
	report.Plan.Rollout.Policies = []rollout.PolicyStatus{{Name: "network", Halted: s.halted != "", HaltMessage: s.halted}}
	report.Plan.Rollout.Decisions = s.decisions
	report.Before.Ledger = s.ledger
	change(&s.ledger)
	report.After.Ledger = s.ledger
	s.crier.hear(report)

	var said []string
	for len(s.crier.out) > 0 {
		e := <-s.crier.out
		said = append(said, strings.Join([]string{e.Type, e.Reason, e.Regarding.Name, e.Note}, " "))
	}
	slices.Sort(said)
	return said
}

func nothing(*rollout.Ledger) {}

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (s *street) proceed(t *testing.T, length time.Duration) {
	t.Helper()
	var err error
	s.ledger, err = s.ledger.Proceed(rollout.Proceed{Policy: "network", Reason: "CVE", By: "ada", Since: s.now, Until: s.now.Add(length)})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProceedIsCriedWhenItBeginsAndEnds(t *testing.T) {
	const began = "policy network proceeds until 2026-03-02T23:00:00Z, whatever its windows and freezes say: CVE (ada)"
	const ended = "windows and freezes of policy network count again"
	both := func(kind, note string) []string { return []string{kind + " cni " + note, kind + " csi " + note} }
	for name, end := range map[string]func(*street) []string{
		"by itself": func(s *street) []string {
			s.now = s.now.Add(time.Hour)
			return s.pass(func(l *rollout.Ledger) { *l, _ = l.EndProceed("network") }) // as the planner drops it
		},
		"by somebody": func(s *street) []string {
			s.ledger, _ = s.ledger.EndProceed("network")
			return s.pass(nothing)
		},
	} {
		s := newStreet()
		expect(t, "nothing", s.pass(nothing))
		s.proceed(t, time.Hour)
		expect(t, "begun", s.pass(nothing), both("Warning ProceedBegan", began)...)
		expect(t, "going on", s.pass(nothing))
		expect(t, name, end(s), both("Normal ProceedEnded", ended)...)
		expect(t, "over", s.pass(nothing))
	}
}

func TestProceedThatEndedWhileNobodyLookedIsCried(t *testing.T) {
	s := newStreet()
	s.proceed(t, time.Hour)
	s.now = s.now.Add(2 * time.Hour)
	got := s.pass(func(l *rollout.Ledger) { *l, _ = l.EndProceed("network") })
	if len(got) != 2 || !strings.HasPrefix(got[0], "Normal ProceedEnded cni") {
		t.Errorf("got %q", got)
	}
}

func TestFailuresAndHaltsAreCriedOnce(t *testing.T) {
	s := newStreet()
	fail := func(l *rollout.Ledger) {
		l.Failures = append(l.Failures, rollout.Failure{Policy: "network", Node: "a", DaemonSet: "agents/cni", Revision: "7d", Message: "CrashLoopBackOff"})
	}
	expect(t, "failed", s.pass(fail), "Warning VisitFailed cni node a did not settle on 7d: CrashLoopBackOff")
	s.halted = "nodes failed: 1, maxFailures: 0"
	expect(t, "halted", s.pass(nothing),
		"Warning Halted cni policy network: nodes failed: 1, maxFailures: 0", "Warning Halted csi policy network: nodes failed: 1, maxFailures: 0")
	expect(t, "still halted", s.pass(nothing))
}

func TestWindowsThatAreTooShortAreCriedOnce(t *testing.T) {
	s := newStreet()
	for _, node := range []string{"a", "b", "c"} {
		s.decisions = append(s.decisions, rollout.Decision{Node: node, Ruling: &rollout.Ruling{
			Policy: "network", Action: rollout.Hold, Reason: rollout.WindowTooShort, Message: "a visit takes 3h",
		}})
	}
	const note = "policy network cannot visit node a, and perhaps others: a visit takes 3h"
	expect(t, "too short", s.pass(nothing), "Warning WindowTooShort cni "+note, "Warning WindowTooShort csi "+note)
	expect(t, "still too short", s.pass(nothing))
}

func TestManyFailuresAreCriedInPart(t *testing.T) {
	s := newStreet()
	got := s.pass(func(l *rollout.Ledger) {
		for i := range 500 {
			l.Failures = append(l.Failures, rollout.Failure{Policy: "network", Node: fmt.Sprint(i), DaemonSet: "agents/cni", Revision: "7d", Message: strings.Repeat("ä", 2000)})
		}
	})
	if len(got) != mostFailures {
		t.Errorf("%d events, want %d", len(got), mostFailures)
	}
}

// The next leader, who has heard nothing, gives an Event the same name.
func TestEventsAreNamedAfterWhatTheySay(t *testing.T) {
	h := happening{daemonSet: types.NamespacedName{Namespace: "agents", Name: "cni"}, uid: "1", reason: halted, note: strings.Repeat("ä", 1000), once: "x"}
	a, b := newStreet().crier.event(h, epoch), newStreet().crier.event(h, epoch.Add(time.Hour))
	if a.Name != b.Name {
		t.Errorf("%s and %s", a.Name, b.Name)
	}
	if len(a.Note) > longestNote || strings.ContainsRune(a.Note, '�') {
		t.Errorf("a note of %d bytes: %q", len(a.Note), a.Note[len(a.Note)-4:])
	}
	for _, other := range []happening{{uid: "2", reason: halted, once: "x"}, {uid: "1", reason: visitFailed, once: "x"}, {uid: "1", reason: halted, once: "y"}} {
		other.daemonSet = h.daemonSet
		if c := newStreet().crier.event(other, epoch); c.Name == a.Name {
			t.Errorf("%+v has the same name", other)
		}
	}
}
