// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

func fullLedger(now time.Time) Ledger {
	return Ledger{
		Visits: []Visit{{Policy: "cni", Node: "a", Commit: "c", Started: now, Steps: []Step{
			{DaemonSet: "ns/cni", From: "r1", To: "r2", Pod: "p1", GraceSeconds: 30, Evicted: now, Replaced: now.Add(time.Second), Settled: now.Add(time.Minute), Recovered: true},
			{DaemonSet: "ns/csi", From: "r1", To: "r2", Pod: "p2", Evicted: now.Add(time.Minute)},
		}}},
		Failures: []Failure{{Policy: "cni", Node: "a", DaemonSet: "ns/cni", Revision: "r2", Message: "it broke", At: now, Acknowledged: true}},
		Refusals: []Refusal{{Policy: "cni", Node: "b", DaemonSet: "ns/cni", Pod: "p3", Message: "budget", At: now}},
		Pauses:   []Pause{{Policy: "gpu", Reason: "CHG-7", By: "ada", Since: now}},
		Proceeds: []Proceed{{Policy: "gpu", Reason: "CVE-1", By: "ada", Since: now, Until: now.Add(time.Hour)}},
		Finished: []Visit{{Policy: "cni", Node: "c", Started: now, Steps: []Step{{DaemonSet: "ns/cni", To: "r2", Evicted: now}}, Finished: now, Outcome: Settled}},
		Governed: map[string]Governance{"ns/cni": {Policy: "cni", Proven: "r2", Documents: []policy.Document{{Object: map[string]any{"kind": "UpgradePolicy"}, File: "upgrades.yaml"}}}},
	}
}

func TestLedgerThroughJSON(t *testing.T) {
	l := fullLedger(instant(t, "2026-03-02T22:00:00Z"))
	if diff := cmp.Diff(l, throughJSON(t, l)); diff != "" {
		t.Error(diff)
	}
	if data, err := json.Marshal(Ledger{}); err != nil || string(data) != "{}" {
		t.Errorf("an empty ledger is %s, %v", data, err)
	}
}

// Many DaemonSets obey the same documents: the ledger keeps each once.
func TestLedgerKeepsEachDocumentOnce(t *testing.T) {
	shared, own := policy.Document{Object: map[string]any{"kind": "Freeze"}, Calendar: "BEGIN:VCALENDAR"}, policy.Document{Object: map[string]any{"kind": "MaintenanceWindow"}}
	l := Ledger{Governed: map[string]Governance{
		"ns/cni": {Policy: "net", Documents: []policy.Document{shared, own}},
		"ns/csi": {Policy: "net", Documents: []policy.Document{shared, own}},
		"ns/log": {Policy: "log", Proven: "r1", Documents: []policy.Document{shared}},
		"ns/gpu": {},
	}}
	data := must(json.Marshal(l))
	if n := bytes.Count(data, []byte("BEGIN:VCALENDAR")); n != 1 {
		t.Errorf("the calendar is kept %d times:\n%s", n, data)
	}
	if diff := cmp.Diff(l, throughJSON(t, l)); diff != "" {
		t.Error(diff)
	}
}

// Ledgers that were written when every DaemonSet had documents of its own are read.
func TestLedgerWithDocumentsOfEachDaemonSet(t *testing.T) {
	var l Ledger
	err := json.Unmarshal([]byte(`{"pauses":[{"policy":"net","since":"2026-03-02T22:00:00Z"}],
		"governed":{"ns/cni":{"policy":"net","proven":"r2","documents":[{"object":{"kind":"UpgradePolicy"},"file":"upgrades.yaml"}]},"ns/gpu":{}}}`), &l)
	want := Ledger{
		Pauses: []Pause{{Policy: "net", Since: instant(t, "2026-03-02T22:00:00Z")}},
		Governed: map[string]Governance{
			"ns/cni": {Policy: "net", Proven: "r2", Documents: []policy.Document{{Object: map[string]any{"kind": "UpgradePolicy"}, File: "upgrades.yaml"}}},
			"ns/gpu": {},
		},
	}
	if diff := cmp.Diff(want, l); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A document that is missing takes the others with it: without a freeze, what
// is left would allow what the freeze forbids.
func TestLedgerWithoutADocumentGovernsNothing(t *testing.T) {
	set, night := policySet(t, gateDocuments, "cni", "log", "gpu"), instant(t, "2026-03-02T23:00:00Z")
	data := must(json.Marshal(Ledger{}.Govern(set)))
	var stored map[string]any
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	rules := stored["rules"].(map[string]any)
	for digest, d := range rules {
		if d.(map[string]any)["object"].(map[string]any)["kind"] == "Freeze" {
			delete(rules, digest)
		}
	}
	var l Ledger
	if err := json.Unmarshal(must(json.Marshal(stored)), &l); err != nil {
		t.Fatal(err)
	}
	got := Gate(Change{DaemonSet: nameOf("cni"), Kind: Delete}, Rules{Ledger: l}, night)
	if got.Allowed || !strings.Contains(got.Message, "its windows cannot be read") {
		t.Errorf("got %+v, want it shut", got)
	}
}

// A ledger that went through the store plans as the one that did not.
func TestPlanFromStoredLedger(t *testing.T) {
	s := readScene(t, `
policy cni cni,csi max=2
daemonset cni new
daemonset csi new
node a cni=new(created=20m,ready=1m) csi=old
node b cni=old csi=old
visit cni a cni:old>new(evicted=21m,replaced=20m)
failure cni a cni new acknowledged
`)
	direct := New(s.observed, s.policies, s.now)
	s.observed.Ledger = throughJSON(t, s.observed.Ledger)
	if diff := cmp.Diff(direct, New(s.observed, s.policies, s.now), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// Equal ledgers are equal bytes, so that a store writes only what changed.
func TestQuietPassChangesNoByte(t *testing.T) {
	obs, policies, now := fleetOf(50, 4, 2, func(n int) bool { return n%10 == 0 })
	policies[0].Calendar.Always = true
	first := New(obs, policies, now)
	obs.Ledger = first.Ledger
	second := New(obs, policies, now.Add(30*time.Second))
	a, b := must(json.Marshal(first.Ledger)), must(json.Marshal(second.Ledger))
	if !bytes.Equal(a, b) {
		t.Errorf("the second pass writes the ledger anew:\n%s\n%s", a, b)
	}
}

func TestNewLeavesItsInputAlone(t *testing.T) {
	s := readScene(t, `
policy cni cni,csi max=2
daemonset cni new proven
daemonset csi new
node a cni=new(created=20m,ready=1m) csi=old
node b cni=old(problem=CrashLoopBackOff) csi=old
visit cni a cni:old>new(evicted=21m)
visit cni gone cni:old>new(evicted=21m)
failure cni a cni new
refusal cni b cni old 1m
objection cni cni@newer 1h
objection cni csi@new 1h
`)
	read := func() []byte {
		o := s.observed
		return must(json.Marshal([]any{o.Nodes, o.DaemonSets, o.Pods, o.Ledger}))
	}
	before := read()
	New(s.observed, s.policies, s.now)
	if after := read(); !bytes.Equal(before, after) {
		t.Errorf("was %s\nis  %s", before, after)
	}
}

func TestLedgerMethodsLeaveTheirReceiverAlone(t *testing.T) {
	now := instant(t, "2026-03-02T22:00:00Z")
	l := fullLedger(now)
	l.Failures[0].Acknowledged = false
	before := must(json.Marshal(l))
	d := Decision{Ruling: &Ruling{Policy: "cni", DaemonSet: nameOf("csi")}, Node: "a", Pod: &Eviction{UID: "p2"}}
	for name, changed := range map[string]Ledger{
		"Proceed": must(l.Proceed(Proceed{Policy: "cni", Since: now, Until: now.Add(time.Hour)})),
		"Pause":   l.Pause(Pause{Policy: "cni", Reason: "why", Since: now}), "Resume": l.Resume("gpu").Resume("cni"), "Refuse": l.Refuse(d, "no", now),
	} {
		if after := must(json.Marshal(l)); !bytes.Equal(before, after) {
			t.Errorf("%s changes its receiver:\nwas %s\nis  %s", name, before, after)
		}
		if bytes.Equal(before, must(json.Marshal(changed))) {
			t.Errorf("%s changes nothing", name)
		}
	}
}

func TestRefuse(t *testing.T) {
	now := instant(t, "2026-03-02T22:00:00Z")
	l := Ledger{Visits: []Visit{
		{Policy: "cni", Node: "a", Steps: []Step{{DaemonSet: "ns/cni", Pod: "p1", Evicted: now}}},
		{Policy: "cni", Node: "b", Steps: []Step{{DaemonSet: "ns/cni", Pod: "p2", Settled: now}, {DaemonSet: "ns/csi", Pod: "p3", Evicted: now}}},
	}}
	l = l.Refuse(Decision{Ruling: &Ruling{Policy: "cni", DaemonSet: nameOf("cni")}, Node: "a", Pod: &Eviction{UID: "p1"}}, "budget a", now)
	l = l.Refuse(Decision{Ruling: &Ruling{Policy: "cni", DaemonSet: nameOf("csi")}, Node: "b", Pod: &Eviction{UID: "p3"}}, "budget b", now)
	if len(l.Visits) != 1 || l.Visits[0].Node != "b" || len(l.Visits[0].Steps) != 1 {
		t.Errorf("want the visit to b with its settled step alone, got %+v", l.Visits)
	}
	if len(l.Refusals) != 2 || l.Refusals[0].Message != "budget a" || l.Refusals[1].Message != "budget b" {
		t.Errorf("got %+v", l.Refusals)
	}
	l = l.Refuse(Decision{Ruling: &Ruling{Policy: "cni", DaemonSet: nameOf("cni")}, Node: "a", Pod: &Eviction{UID: "p1"}}, "again", now.Add(time.Minute))
	if len(l.Refusals) != 2 || l.Refusals[0].Message != "again" {
		t.Errorf("want one refusal for each node, got %+v", l.Refusals)
	}
}

// What was refused waits no longer when its policy is resumed. The next Job has
// another name than the one that failed.
func TestResumeTriesAgainAtOnce(t *testing.T) {
	for _, tc := range []struct {
		refusal, gate string
		want          Action
		kept          int // how often it was refused before, as is remembered
	}{
		{"refusal cni a cni old 1s", "", Drain, 0},
		{"refusal cni a cni old 1s 9 drain", "", Drain, 0},
		{"refusal cni a cni old 1s 9 gate=idle", " gate=idle:before:5m", Wait, 8},
	} {
		s := readScene(t, "policy cni cni drain=10m"+tc.gate+"\ndaemonset cni new proven\nnode a cni=old\nasks\n"+tc.refusal)
		if d := New(s.observed, s.policies, s.now).Decisions[0]; d.Action != Hold {
			t.Errorf("%s: got %+v before, want it held", tc.refusal, *d.Ruling)
		}
		s.observed.Ledger = s.observed.Ledger.Resume("other").Resume("cni")
		kept := 0
		for _, r := range s.observed.Ledger.Refusals {
			kept += r.Again
		}
		if d := New(s.observed, s.policies, s.now).Decisions[0]; d.Action != tc.want || kept != tc.kept {
			t.Errorf("%s: got %+v, refused %d times before; want %s and %d", tc.refusal, *d.Ruling, kept, tc.want, tc.kept)
		}
	}
}

func TestFinishedVisitsFitIntoAConfigMap(t *testing.T) {
	now := instant(t, "2026-03-02T22:00:00Z")
	visits := func(n, steps int) []Visit {
		var list []Visit
		for i := range n {
			v := Visit{Policy: "node-agents-production", Node: fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i>>8, i&255), Commit: "0123456789012345678901234567890123456789", Started: now, Finished: now, Outcome: Settled}
			for s := range steps {
				v.Steps = append(v.Steps, Step{DaemonSet: fmt.Sprintf("monitoring/prometheus-node-exporter-%d", s), From: "6f7c9d5b8", To: "7b8d4c9f6", Evicted: now, Settled: now})
			}
			list = append(list, v)
		}
		return list
	}
	for steps, want := range map[int]int{1: 500, 3: 500, 20: 75} {
		kept := trim(visits(1000, steps))
		if len(kept) != want || kept[want-1].Node != visits(1000, 1)[999].Node {
			t.Errorf("%d steps each: %d visits kept, want the newest %d", steps, len(kept), want)
		}
		if size := len(must(json.Marshal(kept))); size > 512<<10 {
			t.Errorf("%d steps each: %d bytes", steps, size)
		}
	}
}

// A budget that refuses every eviction of a large cluster must not fill the ledger,
// which holds the visits of all other policies too.
func TestRefusalsFitIntoAConfigMap(t *testing.T) {
	const nodes = 65000
	s := readScene(t, "policy cni cni\ndaemonset cni new proven")
	for i := range nodes {
		name := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i>>8, i&255)
		pod := s.readPod(name, "cni", "old")
		s.observed.Nodes, s.observed.Pods = append(s.observed.Nodes, health.Node{Name: name, Ready: true}), append(s.observed.Pods, &pod)
		r := Refusal{
			Policy: "cni", Node: name, DaemonSet: "ns/cni", Pod: pod.UID, At: s.now.Add(time.Duration(i-nodes) * time.Second),
			Message: "Cannot evict pod as it would violate the pod's disruption budget.",
		}
		switch i { // the oldest
		case 0:
			r.Drain = true
		case 1:
			r.Gate = "backup"
		}
		s.observed.Ledger.Refusals = append(s.observed.Ledger.Refusals, r)
	}
	kept := New(s.observed, s.policies, s.now).Ledger.Refusals
	if len(kept) != keptRefusals || !slices.IsSortedFunc(kept, compareRefusals) {
		t.Fatalf("%d refusals are kept, want %d by node", len(kept), keptRefusals)
	}
	for _, r := range kept {
		if oldest := s.now.Add(-keptRefusals * time.Second); r.At.Before(oldest) && !r.Drain && r.Gate == "" {
			t.Errorf("%s was refused %s ago, and newer ones are gone", r.Node, s.now.Sub(r.At))
		}
	}
	if !slices.ContainsFunc(kept, func(r Refusal) bool { return r.Drain }) || !slices.ContainsFunc(kept, func(r Refusal) bool { return r.Gate != "" }) {
		t.Error("a drain or a Job that came to nothing would be repeated at once")
	}
}

// A commit that drops a policy and the one that brings it back must not take
// down one node more.
func TestPolicyThatComesBackHasNoFreshBudget(t *testing.T) {
	for name, state := range map[string]string{
		"a node is on its way": "node a gpu=new(created=1m,unready)\nvisit gpu a gpu:old>new(evicted=2m,replaced=1m)",
		"a node had failed":    "node a gpu=new\nfailure gpu a gpu new",
	} {
		t.Run(name, func(t *testing.T) {
			s := readScene(t, "policy gpu gpu\ndaemonset gpu new proven\nnode b gpu=old\n"+state)
			s.observed.Ledger = New(s.observed, nil, s.now).Ledger
			for _, d := range New(s.observed, s.policies, s.now.Add(time.Minute)).Decisions {
				if d.Action == Evict {
					t.Errorf("node %s is visited", d.Node)
				}
			}
		})
	}
}

// Refusals of one pod in a row are counted; another pod starts over.
func TestRefusalsInARowAreCounted(t *testing.T) {
	now := time.Date(2026, 3, 2, 22, 0, 0, 0, time.UTC)
	refused := func(pod types.UID) Decision {
		return Decision{Ruling: &Ruling{Policy: "cni", DaemonSet: nameOf("cni"), Action: Evict}, Node: "a", Pod: &Eviction{UID: pod}}
	}
	var l Ledger
	for i, step := range []struct {
		pod  types.UID
		wait time.Duration
	}{{"p1", 30 * time.Second}, {"p1", time.Minute}, {"p1", 2 * time.Minute}, {"p1", 4 * time.Minute}, {"p1", 5 * time.Minute}, {"p1", 5 * time.Minute}, {"p2", 30 * time.Second}} {
		l = l.Refuse(refused(step.pod), "not now", now)
		if got := l.Refusals[0].triedAgain().Sub(now); got != step.wait || len(l.Refusals) != 1 {
			t.Errorf("refusal %d: tried again after %s, want %s", i+1, got, step.wait)
		}
	}
}

// An eviction that was not answered may be carried out all the same. When it is sent
// again and refused its node keeps its slot, until nothing can come of the first one.
func TestRefusalOfARepeatedEvictionKeepsItsSlotForAWhile(t *testing.T) {
	s := readScene(t, "policy cni cni\ndaemonset cni new proven\nnode a cni=old\nnode b cni=old")
	plan := New(s.observed, s.policies, s.now)
	if got := evicted(plan); got != "a" {
		t.Fatalf("evicts on %q, want on a", got)
	}
	s.observed.Ledger = plan.Ledger
	plan = New(s.observed, s.policies, s.now.Add(time.Second))
	if got := evicted(plan); got != "a" {
		t.Fatalf("evicts on %q without an answer, want on a again", got)
	}
	s.observed.Ledger = plan.Ledger.Refuse(plan.Decisions[0], "budget", s.now.Add(time.Second))
	for after, want := range map[time.Duration]string{2 * time.Second: "", 59 * time.Second: "", time.Minute: "b"} {
		if got := evicted(New(s.observed, s.policies, s.now.Add(after))); got != want {
			t.Errorf("%s later: evicts on %q, want on %q", after, got, want)
		}
	}
}

// An eviction that is still under way is no second one, whatever the plans of meanwhile
// say, also for a newer revision: when it is refused nothing is in doubt.
func TestRefusalOfAnEvictionThatWasUnderWayFreesItsSlot(t *testing.T) {
	s := readScene(t, "policy cni cni\ndaemonset cni new proven\nnode a cni=old\nnode b cni=old")
	plan := New(s.observed, s.policies, s.now)
	if got := evicted(plan); got != "a" {
		t.Fatalf("evicts on %q, want on a", got)
	}
	sent := plan.Decisions[0]
	s.observed.UnderWay = map[types.UID]bool{sent.Pod.UID: true}
	for _, revision := range []string{"new", "newer"} {
		s.observed.DaemonSets[0].Revision = revision
		s.observed.Ledger = plan.Ledger
		s.observed.Ledger.Governed[sent.DaemonSet.String()] = Governance{Policy: "cni", Proven: revision}
		plan = New(s.observed, s.policies, s.now.Add(time.Second))
		if len(plan.Ledger.Visits) != 1 || plan.Ledger.Visits[0].Node != "a" {
			t.Fatalf("at %s: visits %+v, want that of a", revision, plan.Ledger.Visits)
		}
	}
	s.observed.Ledger, s.observed.UnderWay = plan.Ledger.Refuse(sent, "budget", s.now.Add(time.Second)), nil
	if got := evicted(New(s.observed, s.policies, s.now.Add(2*time.Second))); got != "b" {
		t.Errorf("evicts on %q after the refusal, want on b", got)
	}
}

// Nor does a newer revision make it another eviction: the pod is the same.
func TestRefusalOfAnEvictionForANewerRevisionKeepsItsSlotForAWhile(t *testing.T) {
	s := readScene(t, "policy cni cni\ndaemonset cni new proven\nnode a cni=old\nnode b cni=old")
	plan := New(s.observed, s.policies, s.now)
	if got := evicted(plan); got != "a" {
		t.Fatalf("evicts on %q, want on a", got)
	}
	d := &s.observed.DaemonSets[0]
	d.Revision = "newer"
	s.observed.Ledger = plan.Ledger
	known := s.observed.Ledger.Governed[d.Name.String()]
	known.Proven = d.Revision
	s.observed.Ledger.Governed[d.Name.String()] = known
	plan = New(s.observed, s.policies, s.now.Add(time.Second))
	if got := evicted(plan); got != "a" {
		t.Fatalf("evicts on %q without an answer, want on a again", got)
	}
	s.observed.Ledger = plan.Ledger.Refuse(plan.Decisions[0], "budget", s.now.Add(time.Second))
	for after, want := range map[time.Duration]string{2 * time.Second: "", 59 * time.Second: "", 61 * time.Second: "b"} {
		if got := evicted(New(s.observed, s.policies, s.now.Add(after))); got != want {
			t.Errorf("%s later: evicts on %q, want on %q", after, got, want)
		}
	}
}
