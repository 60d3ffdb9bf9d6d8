// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/rollout"
)

func TestProceedVisitsNodesInAFreezeAndIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	freeze := strings.Replace(span{second(-time.Hour), second(24 * time.Hour)}.freeze("stop"), "spec: {", "spec: {scope: Everything, reason: CHG-1, ", 1)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "rules.yaml": rules{maxUnavailable: "4"}.yaml(w),
	}))
	w.settled(t, "1")
	w.commit(t, "a freeze", map[string]string{"rules.yaml": rules{maxUnavailable: "4", more: freeze}.yaml(w)})
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2"), "a.yaml": configMap("a", "2")})
	w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reason(rollout.Frozen))
	w.noteOn(t, "ConfigMap/"+w.namespace+"/a", inventory.Reason(rollout.Frozen))

	w.run(t, "proceed", "agents", "--for", "1h", "--reason", "CVE-1")
	w.settled(t, "2")
	w.says(t, "a", "2")
	w.withinBudget(t, 4)
	w.onceEach(t)
	s, err := w.status(t)
	if err != nil || s.Policies[0].Proceed == nil || s.Policies[0].Proceed.Reason != "CVE-1" {
		t.Errorf("status does not show it: %+v (%v)", s.Policies, err)
	}

	w.run(t, "proceed", "agents", "--end")
	w.commit(t, "version 3", map[string]string{"agent.yaml": daemonSet("3", "v3")})
	w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reason(rollout.Frozen))
	w.events(t, "ProceedBegan", "ProceedEnded")
}

// The word is as short as the ledger takes it, so that the test need not wait.
func TestProceedEndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "slow-2s"),
			"rules.yaml": rules{windows: "night", more: far().window("night")}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	w.commit(t, "version 2", files("2"))
	w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reason(rollout.WindowShut))

	since := second(0)
	said := span{since, since.Add(22 * time.Second)}
	w.edited(t, func(l rollout.Ledger) (rollout.Ledger, error) {
		return l.Proceed(rollout.Proceed{Policy: "agents", Reason: "CVE-1", Since: said.from, Until: said.to})
	})
	w.events(t, "ProceedBegan", "ProceedEnded")
	if left := w.stateNow(t).Ledger.Proceeds; len(left) > 0 {
		t.Errorf("the ledger still says to proceed: %+v", left)
	}
	given := w.orders(t)
	if late := outside(given, said); len(late) > 0 {
		t.Errorf("pods were deleted after %s: %v", said, late)
	}
	if len(given) == 0 || len(given) == nodes {
		t.Errorf("%d pods were deleted meanwhile: want some, and not all", len(given))
	}
}

func TestPausedPolicyStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "slow-2s"), "rules.yaml": rules{}.yaml(w)}))
	w.settled(t, "1")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "slow-2s")})
	testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, 1) })

	w.run(t, "pause", "agents", "--reason", "INC-42")
	testkit.Eventually(t, patience, w.idle) // what had begun is settled
	before := len(w.orders(t))
	w.polled(t, 3)
	if now := len(w.orders(t)); now != before || now == nodes {
		t.Errorf("%d pods were deleted, and %d once nothing was under way: want no more, and not all", now, before)
	}
	s, err := w.status(t)
	if err != nil || s.Policies[0].Paused == nil || s.Policies[0].Paused.Reason != "INC-42" || s.Bad() {
		t.Errorf("status: %+v (%v)", s.Policies, err)
	}

	w.run(t, "resume", "agents")
	w.settled(t, "2")
	w.onceEach(t)
}

// Not parallel: other tests want all nodes.
func TestHeldNodeIsSkipped(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1"), "rules.yaml": rules{maxUnavailable: "4"}.yaml(w)}))
	w.settled(t, "1")
	const node = "node-003"
	t.Cleanup(func() {
		cmd := w.command(t, "release", node)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("release: %v: %s", err, out)
		}
	})
	w.run(t, "hold", node, "--reason", "disk")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, nodes-1) })
	testkit.Eventually(t, patience, w.idle)
	w.polled(t, 2)
	if n := w.countByNode(t)[node]; n != 0 || len(w.orders(t)) != nodes-1 {
		t.Errorf("the held node was visited %d times, and %d pods deleted", n, len(w.orders(t)))
	}
	s, err := w.status(t)
	if err != nil || !slices.ContainsFunc(s.Nodes, func(n show.NodeStatus) bool {
		return n.Node == node && n.Reason == string(rollout.NodeHeld) && n.Message == "disk"
	}) {
		t.Errorf("status does not say that it is held: %+v (%v)", s.Nodes, err)
	}
	w.run(t, "release", node)
	w.settled(t, "2")
	w.onceEach(t)
}

func TestHistorySaysWhatBecameOfEachCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	commits := map[string]string{}
	files := func(version, tag string) map[string]string {
		return w.fleet(map[string]string{"agent.yaml": daemonSet(version, tag), "rules.yaml": rules{maxUnavailable: "6"}.yaml(w)})
	}
	w.commit(t, "version 1", files("1", "v1"))
	w.settled(t, "1")
	commits["2"] = w.commit(t, "version 2", files("2", "v2"))
	w.settled(t, "2")
	commits["3"] = w.commit(t, "a bad day", files("3", "crash"))
	w.events(t, "Halted", "VisitFailed")

	h := w.history(t)
	if len(h.Revisions) != 3 || h.Policy != "agents" {
		t.Fatalf("history: %+v", h)
	}
	type line struct {
		revision int64
		commit   string
		nodes    int
		failed   int
		outcome  string
		current  bool
	}
	for i, want := range []line{
		{3, commits["3"], 1, 1, "halted", true}, {2, commits["2"], nodes, 0, "settled", false}, {1, "", 0, 0, "", false},
	} {
		r := h.Revisions[i]
		if got := (line{r.Revision, r.Commit.Hash, r.Nodes, r.Failed, r.Outcome, r.Current}); got != want {
			t.Errorf("line %d: got %+v, want %+v", i, got, want)
		}
	}
	if h.Revisions[0].Commit.Subject != "a bad day" || h.Revisions[1].Median == "" {
		t.Errorf("the commit in force and how long pods took are not said: %+v", h.Revisions)
	}
}

func (w *world) history(t *testing.T) show.History {
	t.Helper()
	out, err := w.command(t, "history", "daemonset/"+w.namespace+"/agent", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var h show.History
	if err := json.Unmarshal(out, &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs a command line that must succeed.
func (w *world) run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := w.command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// edited changes the ledger as a person does.
func (w *world) edited(t *testing.T, edit func(rollout.Ledger) (rollout.Ledger, error)) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		store := agent.NewStore(w.Client, w.instance)
		state, err := store.Load(ctx)
		if err != nil {
			return err
		}
		if state.Ledger, err = edit(state.Ledger); err != nil {
			return err
		}
		return store.Save(ctx, state)
	})
}

// events waits until the DaemonSet has exactly one Event of each of these
// reasons, and none of others of ours.
func (w *world) events(t *testing.T, want ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		list, err := w.Client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			if e.ReportingController == "lamplighter.dev/agent" && e.Regarding.Kind == "DaemonSet" && e.Regarding.Name == "agent" {
				got = append(got, e.Reason)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
}
