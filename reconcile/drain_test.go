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
