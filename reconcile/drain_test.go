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

var errForbidden = errors.New("nodes are forbidden")

// cordoned is a world with a node that carries our mark and cannot be patched.
type cordoned struct{ *world }

func (c *cordoned) Snapshot() ([]health.Node, []health.DaemonSet, []health.Pod) {
	return []health.Node{{Name: "n1", Ready: true, Unschedulable: true, CordonedBy: rollout.CordonMark(us.ID(), "cni")}}, nil, nil
}

func (c *cordoned) Drain(context.Context, []rollout.Decision) []rollout.Attempt { return nil }

func (c *cordoned) Uncordon(context.Context, []rollout.Uncordon) error { return errForbidden }
