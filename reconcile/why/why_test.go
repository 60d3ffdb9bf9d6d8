// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/why"
	"lamplighter.dev/reconcile/window"
)

var (
	now = time.Date(2026, 11, 30, 21, 30, 0, 0, time.UTC)
	cni = types.NamespacedName{Namespace: "agents", Name: "cni"}
)

const documents = `
- apiVersion: lamplighter.dev/v1alpha1
  kind: MaintenanceWindow
  metadata: {name: night}
  spec: {start: 2026-11-30T21:00:00Z, end: 2026-11-30T23:00:00Z}
- apiVersion: lamplighter.dev/v1alpha1
  kind: UpgradePolicy
  metadata: {name: network}
  spec: {daemonSets: [{namespace: agents, name: cni}], windows: [night]}
`

// input is two nodes, n1 and n2, each with an outdated pod of agents/cni.
func input(t *testing.T) why.Input {
	t.Helper()
	var objects []map[string]any
	if err := yaml.Unmarshal([]byte(documents), &objects); err != nil {
		t.Fatal(err)
	}
	var docs []policy.Document
	for _, o := range objects {
		docs = append(docs, policy.Document{Object: o})
	}
	set, problems := policy.ParseRecorded(docs, now)
	for _, p := range problems {
		if p.Level == policy.Error {
			t.Fatal(p)
		}
	}
	in := why.Input{Now: now}
	in.Observation = reconcile.Observation{
		Instance:   inventory.Instance{Namespace: "ops", Name: "prod"},
		Policies:   set,
		State:      reconcile.State{Record: reconcile.Record{Since: now.Add(-time.Hour), Commit: reconcile.Commit{Hash: "0123456789", Subject: "cni 2"}}},
		DaemonSets: []health.DaemonSet{{Name: cni, UID: "ds", Revision: "new", RevisionObserved: true, OnDelete: true, Template: &corev1.PodSpec{}}},
	}
	for _, n := range []string{"n1", "n2"} {
		in.Observation.Nodes = append(in.Observation.Nodes, health.Node{Name: n, Ready: true})
		in.Observation.Pods = append(in.Observation.Pods, &health.Pod{
			Name: types.NamespacedName{Namespace: "agents", Name: "cni-" + n}, UID: types.UID("pod-" + n), Node: n, Owner: "ds",
			Hash: "old", Ready: true, ReadySince: now.Add(-time.Hour), Created: now.Add(-time.Hour),
		})
	}
	return in
}

func planned(t *testing.T, in why.Input) why.Input {
	t.Helper()
	plan, err := reconcile.New(in.Observation, in.Now)
	if err != nil {
		t.Fatal(err)
	}
	in.Plan = plan
	return in
}

// lines writes a chain with ">" before the link that decides.
func lines(c why.Chain) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", c.Decision)
	for i, l := range c.Links {
		pointer := " "
		if i == c.Decides {
			pointer = ">"
		}
		fmt.Fprintf(&b, "%s %s %s: %s\n", pointer, l.Mark, l.Name, l.Text)
		if l.Look != "" {
			fmt.Fprintf(&b, "    %s\n", l.Look)
		}
	}
	return jobName.ReplaceAllString(strings.TrimSpace(b.String()), "$1")
}

// jobName ends with a digest, which says nothing to a reader.
var jobName = regexp.MustCompile(`(lamplighter-smoke)-[0-9a-f]{18}`)

func warning(kind string, name types.NamespacedName, reason, message string) health.Event {
	return health.Event{About: health.Subject{Kind: kind, Name: name}, Reason: reason, Message: message, Warning: true, Count: 3, Last: now}
}

func TestNode(t *testing.T) {
	pod := types.NamespacedName{Namespace: "agents", Name: "cni-n1"}
	for name, c := range map[string]struct {
		change func(*why.Input)
		want   string
	}{
		"its turn comes after the node that is visited": {
			func(in *why.Input) {
				in.Observation.Pods[1].Hash = "new"
				in.Observation.Pods[1].Ready, in.Observation.Pods[1].Created = false, now.Add(-time.Minute)
				in.Observation.State.Ledger.Visits = []rollout.Visit{{Policy: "network", Node: "n2", Started: now.Add(-2 * time.Minute), Steps: []rollout.Step{
					{DaemonSet: "agents/cni", From: "old", To: "new", Pod: "gone", Evicted: now.Add(-2 * time.Minute)},
				}}}
			}, `
hold: BudgetSpent
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
> wait budget: 1 of at most 1 nodes are visited: n2; no visit has settled on new of agents/cni yet: 1 of 1 nodes try it first`},
		"the same template is written down as another revision": {
			func(in *why.Input) {
				in.Observation.DaemonSets[0].TemplateGeneration, in.Observation.Pods[0].TemplateGeneration = 3, 3
			}, `
keep: UpToDate
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old, the same template as new: current, Ready since 2026-11-30T20:30:00Z`},
		"a taint that came later": {
			func(in *why.Input) {
				in.Observation.Nodes[0].Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			}, `
hold: WouldNotReturn
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
> stop placement: a pod that is here may stay, and none would be created: untolerated taint dedicated=gpu:NoSchedule; pod agents/cni-n1 is outdated and would not be created again: untolerated taint dedicated=gpu:NoSchedule
    kubectl describe node n1
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 0 of at most 1 nodes are visited`},
		"the network plugin is broken": {
			func(in *why.Input) {
				p := in.Observation.Pods[0]
				p.Hash, p.Ready, p.Created = "new", false, now.Add(-time.Minute)
				in.Events = []health.Event{
					warning("Pod", types.NamespacedName{Namespace: "agents", Name: "cni-n2"}, "Unhealthy", "no"),
					{About: health.Subject{Kind: "Pod", Name: pod}, Reason: "Scheduled", Message: "assigned", Count: 1, Last: now},
					warning("Pod", pod, "FailedCreatePodSandBox", `plugin type="calico" failed (add)`),
				}
			}, `
wait: Settling
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
> wait pod: agents/cni-n1 of new: settling, not Ready
    kubectl -n agents describe pod cni-n1
  note cause: the node's container runtime or network plugin cannot make the pod's sandbox
    kubectl -n agents describe pod cni-n1
  note event: FailedCreatePodSandBox: plugin type="calico" failed (add) (3 times), last at 2026-11-30T21:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 0 of at most 1 nodes are visited`},
		"no room": {
			func(in *why.Input) {
				p := in.Observation.Pods[0]
				p.Hash, p.Ready, p.Created = "new", false, now.Add(-time.Minute)
				p.Problem = health.Problem{Reason: "Unschedulable", Message: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}."}
			}, `
wait: Settling
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
> wait pod: agents/cni-n1 of new: settling, not Ready; Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}.
    kubectl -n agents describe pod cni-n1
  note cause: the node has no room for it
    kubectl -n agents describe pod cni-n1
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 0 of at most 1 nodes are visited`},
		"the API server takes no pod": {
			func(in *why.Input) {
				in.Observation.Pods = in.Observation.Pods[1:]
				in.Observation.Pods[0].Hash = "new"
				in.Events = []health.Event{warning("DaemonSet", cni, "FailedCreate", "exceeded quota: pods")}
			}, `
wait: Replacing
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
> wait pod: there is none; the DaemonSet controller has not created a pod
  note cause: the API server does not take the pod: admission, quota or Pod Security
    kubectl -n agents describe daemonset cni
  note event: FailedCreate: exceeded quota: pods (3 times), last at 2026-11-30T21:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 0 of at most 1 nodes are visited`},
		"a newer commit is not in force, and events may not be read": {
			func(in *why.Input) {
				in.Observation.Pods[0].Hash = "new"
				in.Observation.State.Record.Problem = "commit fedcba9: a.yaml: line 2: oh"
				in.EventsErr = errors.New("forbidden")
			}, `
keep: UpToDate
> stop commit: 0123456 cni 2 is in force since 2026-11-30T20:30:00Z, and the newest is not: commit fedcba9: a.yaml: line 2: oh
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of new: current, Ready since 2026-11-30T20:30:00Z
  note events: cannot be read: forbidden`},
		"a Job after the visit has failed": {
			func(in *why.Input) {
				in.Observation.Pods[0].Hash = "new"
				smoke(t, in)
				at := now.Add(-10 * time.Minute)
				run := jobOf(t, *in)
				run.Started, run.Ended, run.Failed, run.Message = at, at.Add(time.Minute), true, "1 pod has failed: exit code 7"
				in.Observation.State.Ledger.Visits[0].Jobs = []rollout.JobRun{run}
			}, `
hold: Failed
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of new: current, Ready since 2026-11-30T20:30:00Z
  stop policy: halted: nodes failed: 1, maxFailures: 0; first n1 with agents/cni at new: gate smoke: 1 pod has failed: exit code 7 (another version lets it go on, or lamplighter resume network)
    lamplighter resume network
  ok window: night opened 21:00 UTC, closes 23:00
  note gates: smoke is a Job after the visit
  ok budget: 1 of at most 1 nodes are visited: n1
> stop job: gate smoke: 1 pod has failed: exit code 7
    kubectl -n ops get jobs,pods -l lamplighter.dev/node=n1`},
		"a Job after the visit runs": {
			func(in *why.Input) {
				in.Observation.Pods[0].Hash = "new"
				smoke(t, in)
			}, `
wait: JobRunning
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of new: current, Ready since 2026-11-30T20:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  note gates: smoke is a Job after the visit
  ok budget: 1 of at most 1 nodes are visited: n1
> wait job: gate smoke: Job lamplighter-smoke is created
    kubectl -n ops get jobs,pods -l lamplighter.dev/node=n1`},
		"a gate is shut, and what is known of the others": {
			func(in *why.Input) {
				in.Observation.Supposed = true
				p := &in.Observation.Policies.Upgrades[0]
				p.Gates = []policy.Gate{
					{Name: "quiet", HTTP: policy.HTTPGate{URL: "http://slo", ExpectedStatus: 200}},
					{Name: "errors", Prometheus: policy.PrometheusGate{URL: "http://prom", Query: "errors"}},
					{Name: "load", HTTP: policy.HTTPGate{URL: "http://load", ExpectedStatus: 200}},
					{Name: "disk", NodeCondition: policy.NodeCondition{Type: "DiskPressure", Status: "False"}},
					{Name: "idle", Job: policy.JobGate{When: policy.Before, Timeout: time.Hour, Spec: "{}"}},
				}
				in.Observation.Nodes[0].Conditions = []health.NodeCondition{{Type: "DiskPressure", Status: "False"}}
				in.Observation.State.Ledger.Objections = []rollout.Objection{
					{Policy: "network", Gate: "load", Message: "no answer within 10s", Since: now.Add(-time.Minute), Unknown: true},
					{Policy: "network", Gate: "quiet", Message: "slo answered 503, wanted 200", Since: now.Add(-time.Hour)},
				}
			}, `
hold: GateShut
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  note gates: quiet is shut since 2026-11-30T20:30:00Z; errors is not known to be shut; load cannot be read since 2026-11-30T21:29:00Z; disk wants DiskPressure to be False, and it is False; idle is a Job before the visit
  ok budget: 0 of at most 1 nodes are visited
> wait gate: gate quiet: slo answered 503, wanted 200`},
		"no window is long enough": {
			func(in *why.Input) {
				in.Observation.Policies.Upgrades[0].VisitDuration = 3 * time.Hour
				in.Observation.Policies.Upgrades[0].Calendar.Allows = append(in.Observation.Policies.Upgrades[0].Calendar.Allows, nextNight(t))
			}, `
hold: WindowTooShort
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  ok policy: neither paused nor halted
> stop window: night opened 21:00 UTC, closes 23:00; a visit takes 3h, and no opening ahead lasts that long
  ok budget: 0 of at most 1 nodes are visited`},
		"no policy has anything there": {
			func(in *why.Input) {
				in.Observation.Pods = nil
				in.Observation.DaemonSets[0].Template.NodeSelector = map[string]string{"pool": "gpu"}
			}, `
none: no policy has a DaemonSet on this node
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok node: Ready
  note placement: agents/cni should not run here: the node does not have the label pool=gpu`},
	} {
		t.Run(name, func(t *testing.T) {
			checkNode(t, c.change, c.want)
		})
	}
}

// checkNode compares the chain of n1 with what it is to be.
func checkNode(t *testing.T, change func(*why.Input), want string) {
	t.Helper()
	in := input(t)
	change(&in)
	chains, err := why.Node(planned(t, in), "n1")
	if err != nil || len(chains) != 1 {
		t.Fatalf("%d chains, %v", len(chains), err)
	}
	if diff := cmp.Diff(strings.TrimSpace(want), lines(chains[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// smoke gives the policy a Job that runs after a visit, and n1 a visit that has
// settled.
func smoke(t *testing.T, in *why.Input) {
	t.Helper()
	p := &in.Observation.Policies.Upgrades[0]
	p.Gates = []policy.Gate{{Name: "smoke", Job: policy.JobGate{When: policy.After, Timeout: time.Hour, Spec: "{}"}}}
	in.Observation.State.Ledger.Visits = []rollout.Visit{{Policy: "network", Node: "n1", Started: now.Add(-20 * time.Minute), Steps: []rollout.Step{
		{DaemonSet: "agents/cni", From: "old", To: "new", Pod: "gone", Evicted: now.Add(-20 * time.Minute), Settled: now.Add(-15 * time.Minute)},
	}}}
}

// jobOf is the Job that the planner decides to run.
func jobOf(t *testing.T, in why.Input) rollout.JobRun {
	t.Helper()
	in.Observation.Answers, in.Observation.Supposed = rollout.Answers{}, false
	for _, v := range planned(t, in).Plan.Rollout.Ledger.Visits {
		if len(v.Jobs) == 1 {
			return v.Jobs[0]
		}
	}
	t.Fatal("no Job is decided")
	return rollout.JobRun{}
}

func nextNight(t *testing.T) window.Window {
	t.Helper()
	w, err := window.OneOff("next", now.Add(24*time.Hour), now.Add(26*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Whatever the planner says, a link carries it, and only up to date and about to
// be evicted hold nothing up.
func TestEveryReasonDecidesALink(t *testing.T) {
	for _, reason := range rollout.Reasons() {
		in := input(t)
		in.Plan.Rollout.Decisions = []rollout.Decision{{Node: "n1", Ruling: &rollout.Ruling{
			Policy: "network", DaemonSet: cni, State: health.Outdated, Action: rollout.Hold, Reason: reason, Message: "because of it", Until: now.Add(time.Hour),
		}}}
		chains, err := why.Node(in, "n1")
		if err != nil {
			t.Fatal(err)
		}
		c := chains[0]
		if reason == rollout.UpToDate || reason == rollout.Start {
			if c.Decides >= 0 {
				t.Errorf("%s: %s decides, want nothing to", reason, c.Links[c.Decides].Name)
			}
			continue
		}
		if c.Decides < 0 {
			t.Errorf("%s decides nothing", reason)
			continue
		}
		l := c.Links[c.Decides]
		if l.Name == "decision" || !l.Until.Equal(now.Add(time.Hour)) || (l.Mark != why.Waits && l.Mark != why.Stops) {
			t.Errorf("%s: got link %+v, want one of its own, with its end", reason, l)
		}
	}
}

func TestDaemonSet(t *testing.T) {
	in := input(t)
	in.Observation.Nodes[0].Hold = "disk"
	in.Observation.Pods[1].Hash = "new"
	chain, err := why.DaemonSet(planned(t, in), types.NamespacedName{Name: "cni"})
	if err != nil {
		t.Fatal(err)
	}
	want := `
1 of 2 nodes are up to date
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 0 of at most 1 nodes are visited
  ok nodes: of 2 on which it should run 1 are up to date, 2 available, 0 failed
> stop node: n1: NodeHeld: disk
    lamplighter why n1`
	if diff := cmp.Diff(strings.TrimSpace(want), lines(chain)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in.Observation.Policies.Upgrades = nil
	chain, err = why.DaemonSet(planned(t, in), cni)
	if err != nil || chain.Decides != 2 || chain.Links[2].Text != "no UpgradePolicy has it: it is applied, and its pods are never restarted" {
		t.Errorf("without a policy: %v\n%s", err, lines(chain))
	}
}

// While all is up to date, nothing waits for the window.
func TestDaemonSetThatIsUpToDateIsHeldUpByNothing(t *testing.T) {
	in := input(t)
	in.Now = now.Add(-12 * time.Hour)
	for _, p := range in.Observation.Pods {
		p.Hash, p.Created, p.ReadySince = "new", now.Add(-48*time.Hour), now.Add(-48*time.Hour)
	}
	if chain, err := why.DaemonSet(planned(t, in), cni); err != nil || chain.Decides != -1 {
		t.Errorf("up to date: %v\n%s", err, lines(chain))
	}
	in.Observation.Pods[0].Hash = "old"
	chain, err := why.DaemonSet(planned(t, in), cni)
	if err != nil || chain.Decides < 0 || chain.Links[chain.Decides].Name != "window" {
		t.Errorf("outdated: %v\n%s", err, lines(chain))
	}
}

func TestUnknownNamesAreAnsweredWithNearOnes(t *testing.T) {
	in := input(t)
	in.Observation.Nodes[0].Name = "node-004"
	other := in.Observation.DaemonSets[0]
	other.Name.Namespace = "more"
	in.Observation.DaemonSets = append(in.Observation.DaemonSets, other)
	in.Observation.Policies.Upgrades[0].DaemonSets = append(in.Observation.Policies.Upgrades[0].DaemonSets, other.Name)
	_, node := why.Node(in, "node-0004")
	_, far := why.Node(in, "elsewhere")
	_, ambiguous := why.DaemonSet(in, types.NamespacedName{Name: "cni"})
	_, typo := why.DaemonSet(in, types.NamespacedName{Namespace: "agents", Name: "cnii"})
	_, nothing := why.Node(why.Input{}, "n1")
	for _, c := range []struct {
		err        error
		text, near string
	}{
		{node, `node "node-0004": there is none of this name`, "node-004"},
		{why.FindNode(input(t).Observation, "cni"), `node "cni": there is none of this name`, "daemonset/agents/cni"},
		{far, `node "elsewhere": there is none of this name`, ""},
		{ambiguous, `DaemonSet "cni": there is none of this name`, "agents/cni more/cni"},
		{typo, `DaemonSet "agents/cnii": there is none of this name`, "agents/cni"},
		{nothing, `node "n1": there is none of this name, nor any other`, ""},
	} {
		e, ok := errors.AsType[*why.UnknownError](c.err)
		if !ok || e.Error() != c.text || strings.Join(e.Near, " ") != c.near {
			t.Errorf("got %v with %v, want %s with %q", c.err, e, c.text, c.near)
		}
	}
}
