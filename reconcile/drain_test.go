// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// A node that cannot be given back is looked at again, and holds up nothing else.
func TestPassGoesOnWhenANodeCannotBeGivenBack(t *testing.T) {
	c := &cordoned{world: &world{objects: map[string]string{}}}
	r := NewReconciler(Options{Instance: us, Cluster: c, Store: c, Drainer: c, Now: func() time.Time { return shut }})
	report, err := r.Pass(t.Context(), source(map[string]string{"a": "1"}))
	if err != nil {
		t.Errorf("the pass failed: %v", err)
	}
	if !errors.Is(report.StillCordoned, errForbidden) {
		t.Errorf("still cordoned: got %v, want %v", report.StillCordoned, errForbidden)
	}
	if c.objects["a"] != "1" {
		t.Error("nothing was applied")
	}
	if in := report.Next.Sub(shut); in <= 0 || in > uncordonAgain {
		t.Errorf("next look %s later, want it within %s", in, uncordonAgain)
	}
}

// When the eviction that is to follow a drain would be refused, nothing has been
// done: the visit ends, and the refusal is on record.
func TestDrainOfWhichTheEvictionWouldBeRefusedEndsTheVisit(t *testing.T) {
	e := &evicting{world: &world{objects: map[string]string{"cni": ""}}, obs: observe(t, governed+"  drain: {timeout: 10m}\n")}
	e.obs.Pods[0].Hash = "older"
	e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	now := open
	r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, Drainer: refusing{}, Now: func() time.Time { return now }})
	report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
	if err != nil {
		t.Fatal(err)
	}
	l := e.stored.Ledger
	if len(report.Drains) != 1 || len(l.Visits) != 0 || len(l.Refusals) != 1 || l.Refusals[0].Message != "budget strict" || l.Refusals[0].Drained {
		t.Errorf("%d drains, visits %v, refusals %v; want one refusal and no visit", len(report.Drains), l.Visits, l.Refusals)
	}
	now = now.Add(time.Second)
	if report, err = r.Pass(t.Context(), Source{Fleet: e.obs.Fleet}); err != nil {
		t.Fatal(err)
	}
	if d := report.Plan.Rollout.Decisions[0]; d.Reason != rollout.DisruptionBudget || d.Message != "budget strict" {
		t.Errorf("then: got %+v, want the budget", d)
	}
}

// refusing is where no eviction that follows a drain would be allowed.
type refusing struct{}

func (refusing) Drain(_ context.Context, decisions []rollout.Decision) []rollout.Attempt {
	var attempts []rollout.Attempt
	for _, d := range decisions {
		attempts = append(attempts, rollout.Attempt{Decision: d, Result: rollout.Refused, Message: "budget strict"})
	}
	return attempts
}

func (refusing) Uncordon(context.Context, []rollout.Uncordon) error { return nil }

var errForbidden = errors.New("nodes are forbidden")

// cordoned is a world with a node that carries our mark and cannot be patched.
type cordoned struct{ *world }

func (c *cordoned) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) {
	return []health.Node{{Name: "n1", Ready: true, Unschedulable: true, CordonedBy: rollout.CordonMark(us.ID(), "cni")}}, nil, nil
}

func (c *cordoned) Drain(context.Context, []rollout.Decision) []rollout.Attempt { return nil }

func (c *cordoned) Uncordon(context.Context, []rollout.Uncordon) error { return errForbidden }

// Passes may follow each other closely. A node is not looked at by each of them, neither
// to drain it nor to give it back.
func TestNodesAreNotLookedAtByEachPass(t *testing.T) {
	e := &evicting{world: &world{objects: map[string]string{"cni": ""}}, obs: observe(t, governed+"  drain: {timeout: 10m}\n")}
	e.obs.Pods[0].Hash = "older"
	e.obs.Nodes = append(e.obs.Nodes, health.Node{Name: "left", Ready: true, Unschedulable: true, CordonedBy: rollout.CordonMark(us.ID(), "gone")})
	e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	now, s := open, &slowly{}
	r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, Drainer: s, Now: func() time.Time { return now }})
	for range 20 {
		report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
		if err != nil {
			t.Fatal(err)
		}
		if in := report.Next.Sub(now); in <= 0 || in > lookAgain {
			t.Errorf("next look %s later, want it within %s", in, lookAgain)
		}
		now = now.Add(lookAgain / 10)
	}
	if s.drains != 2 || s.uncordons != 2 {
		t.Errorf("looked %d times to drain a node and %d times to give one back, want 2 and 2: once a second", s.drains, s.uncordons)
	}
}

// slowly is where pods take their time to go, and no node can be given back.
type slowly struct{ drains, uncordons int }

func (s *slowly) Drain(_ context.Context, decisions []rollout.Decision) []rollout.Attempt {
	s.drains++
	return []rollout.Attempt{{Decision: decisions[0], Result: rollout.Remaining, Message: "3 pods are left"}}
}

func (s *slowly) Uncordon(context.Context, []rollout.Uncordon) error {
	s.uncordons++
	return errForbidden
}
