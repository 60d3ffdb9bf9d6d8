// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// Each case is a status document, shown with its nodes.
func TestStatusText(t *testing.T) {
	golden(t, "status", func(t *testing.T, f fixture) string {
		var s show.Status
		f.decode(t, "status.yaml", &s)
		var b strings.Builder
		if err := show.WriteStatus(&b, s); err != nil {
			t.Fatal(err)
		}
		if err := show.WriteNodes(&b, s); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

// Each case is what several clusters have answered.
func TestClustersText(t *testing.T) {
	golden(t, "clusters", func(t *testing.T, f fixture) string {
		var c show.Clusters
		f.decode(t, "clusters.yaml", &c)
		var b strings.Builder
		if err := show.WriteClusters(&b, c); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

func TestStatusSaysWhatWasObservedAndDecided(t *testing.T) {
	now := time.Date(2027, 1, 4, 21, 30, 0, 0, time.UTC)
	cni, csi := name("kube-system", "cni"), name("agents", "csi")
	obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}
	obs.State.Record = reconcile.Record{
		Commit: reconcile.Commit{Hash: "0123456789abcdef", Subject: "cni 2"}, Since: now.Add(-time.Hour),
		Problem: "commit fedcba9: a.yaml: line 2: oh", Clock: reconcile.ClockNote{Problem: "it is ahead", TimeZones: "2025c"},
		Objects: []reconcile.ObjectNote{{Object: "Secret/agents/token", Action: "Refuse", Reason: "Conflict"}},
	}
	plan := reconcile.Plan{Rollout: rollout.Plan{
		Policies: []rollout.PolicyStatus{{
			Name: "network", Nodes: 3, Remaining: 1, MaxUnavailable: 2, OutOfService: 1,
			DaemonSets: []rollout.Counts{
				{Name: cni, Desired: 3, Current: 3, Ready: 2, UpToDate: 2, Available: 2},
				{Name: csi, Desired: 3, Current: 3, Ready: 3, UpToDate: 3, Available: 3},
			},
			Window:  window.State{Open: true, Close: now.Add(time.Hour)},
			Paused:  &rollout.Pause{Policy: "network", Reason: "CHG-7", By: "ada", Since: now},
			Proceed: &rollout.Proceed{Policy: "network", Reason: "CVE", Since: now, Until: now.Add(time.Hour)},
		}},
		Decisions: []rollout.Decision{
			{Node: "a", Ruling: &rollout.Ruling{Policy: "network", DaemonSet: cni, State: "current", Action: rollout.Keep, Reason: rollout.UpToDate}},
			{Node: "b", Ruling: &rollout.Ruling{Policy: "network", DaemonSet: cni, State: "outdated", Action: rollout.Hold, Reason: rollout.BudgetSpent, Until: now}},
		},
	}}
	forecast := reconcile.Forecast{Rollout: rollout.Forecast{Policies: []rollout.Outlook{{Name: "network", Done: now.Add(5 * time.Minute)}}}}
	want := show.Status{
		Instance: "ops/prod", Commit: obs.State.Record.Commit, Since: "2027-01-04T20:30:00Z", Problem: obs.State.Record.Problem,
		Clock: obs.State.Record.Clock,
		DaemonSets: []show.DaemonSetStatus{ // by namespace, and the ETA only where something is left to do
			{Namespace: "agents", Name: "csi", Policy: "network", Desired: 3, Current: 3, Ready: 3, UpToDate: 3, Available: 3, Window: "open until 2027-01-04T22:30:00Z"},
			{Namespace: "kube-system", Name: "cni", Policy: "network", Desired: 3, Current: 3, Ready: 2, UpToDate: 2, Available: 2, Window: "open until 2027-01-04T22:30:00Z", ETA: "2027-01-04T21:35:00Z"},
		},
		Policies: []show.PolicyStatus{{Name: "network", Window: "open until 2027-01-04T22:30:00Z", Nodes: 3, Remaining: 1, MaxUnavailable: 2, OutOfService: 1,
			Paused:  &show.Word{Reason: "CHG-7", By: "ada", Since: "2027-01-04T21:30:00Z"},
			Proceed: &show.Word{Reason: "CVE", Since: "2027-01-04T21:30:00Z", Until: "2027-01-04T22:30:00Z"}}},
		Objects: obs.State.Record.Objects,
		Nodes: []show.NodeStatus{
			{Policy: "network", Node: "a", DaemonSet: "kube-system/cni", State: "current", Action: "keep", Reason: "UpToDate", Lamp: "*"},
			{Policy: "network", Node: "b", DaemonSet: "kube-system/cni", State: "outdated", Action: "hold", Reason: "BudgetSpent", Until: "2027-01-04T21:30:00Z", Lamp: "o"},
		},
	}
	if diff := cmp.Diff(want, show.NewStatus(obs, plan, forecast)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatusIsBadWhenSomebodyHasToLook(t *testing.T) {
	for _, c := range []struct {
		name   string
		status show.Status
		want   bool
	}{
		{"all is well", show.Status{}, false},
		{"an object waits for its window", show.Status{Objects: []reconcile.ObjectNote{{Action: "Hold", Reason: "WindowShut"}}}, false},
		{"an object failed and is tried again", show.Status{Objects: []reconcile.ObjectNote{{Action: "Hold", Reason: "Failing"}}}, true},
		{"an object is refused", show.Status{Objects: []reconcile.ObjectNote{{Action: "Refuse", Reason: "Conflict"}}}, true},
		{"a policy is halted", show.Status{Policies: []show.PolicyStatus{{Halted: true}}}, true},
		{"a node failed", show.Status{DaemonSets: []show.DaemonSetStatus{{Failed: 1}}}, true},
		{"the clock is wrong", show.Status{Clock: reconcile.ClockNote{Problem: "it is ahead"}}, true},
		{"the newest commit is not in force", show.Status{Problem: "commit 0123456: no"}, true},
	} {
		if got := c.status.Bad(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEveryReasonHasALamp(t *testing.T) {
	want := map[rollout.Reason]string{
		rollout.UpToDate: "*",
		rollout.Start:    "~", rollout.Settling: "~", rollout.Replacing: "~",
		rollout.Draining: "~", rollout.JobRunning: "~",
		rollout.Failed: "!", rollout.StuckTerminating: "!",
		rollout.NodeHeld: "-", rollout.DaemonSetHeld: "-", rollout.NodeNotReady: "-", rollout.NodeCordoned: "-", rollout.NoRoom: "-", rollout.WindowTooShort: "-", rollout.NodeMaintenance: "-", rollout.WouldNotReturn: "-",
	}
	for _, reason := range rollout.Reasons() {
		plan := reconcile.Plan{Rollout: rollout.Plan{Decisions: []rollout.Decision{{Ruling: &rollout.Ruling{Reason: reason}}}}}
		lamp, known := want[reason]
		if !known {
			lamp = "o"
		}
		if got := show.NewStatus(reconcile.Observation{}, plan, reconcile.Forecast{}).Nodes[0].Lamp; got != lamp {
			t.Errorf("%s: got %s, want %s", reason, got, lamp)
		}
	}
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestWavesAreShown(t *testing.T) {
	at := time.Date(2027, 1, 4, 21, 0, 0, 0, time.UTC)
	plan := reconcile.Plan{Rollout: rollout.Plan{
		Policies: []rollout.PolicyStatus{{
			Name: "network", Nodes: 3, Remaining: 2, DaemonSets: []rollout.Counts{{Name: types.NamespacedName{Namespace: "a", Name: "b"}, Desired: 3}},
			Waves: []rollout.WaveStatus{
				{Name: "canary", State: rollout.WaveSoaking, Nodes: 1, Settled: 1, MaxUnavailable: 1, SoakUntil: at, Message: "settled since 2027-01-03T21:00:00Z"},
				{Name: "rest", State: rollout.WavePending, Nodes: 2, MaxUnavailable: 2},
			},
		}},
		Decisions: []rollout.Decision{{Ruling: &rollout.Ruling{Policy: "network", Wave: "rest"}, Node: "n1"}},
	}}
	s := show.NewStatus(reconcile.Observation{}, plan, reconcile.Forecast{})
	want := []show.WaveStatus{
		{Name: "canary", State: "soaking", Nodes: 1, Settled: 1, MaxUnavailable: 1, SoakUntil: "2027-01-04T21:00:00Z", Message: "settled since 2027-01-03T21:00:00Z"},
		{Name: "rest", State: "waiting", Nodes: 2, MaxUnavailable: 2},
	}
	if diff := cmp.Diff(want, s.Policies[0].Waves); diff != "" || s.Nodes[0].Wave != "rest" {
		t.Errorf("-want +got:\n%s; node in wave %q", diff, s.Nodes[0].Wave)
	}
	s.Since = "2027-01-01T00:00:00Z"
	var text strings.Builder
	if err := show.WriteStatus(&text, s); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"network  canary  soaking  1", "network  rest    waiting  2"} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("no row %q in:\n%s", row, text.String())
		}
	}
}
