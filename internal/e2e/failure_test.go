// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/internal/testkit"
)

func TestBrokenImageHaltsAndANewCommitHealsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	files := func(version, tag string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, tag),
			"rules.yaml": rules{maxUnavailable: "4", maxFailures: 1}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1", "v1"))
	w.settled(t, "1")

	w.commit(t, "a bad build", files("2", "crash"))
	policy := w.halted(t, 2)
	broken := slices.Sorted(maps.Keys(w.countByNode(t)))
	if !slices.ContainsFunc(broken, func(node string) bool { return strings.Contains(policy.HaltMessage, node) }) ||
		!strings.Contains(policy.HaltMessage, "CrashLoopBackOff") {
		t.Errorf("the message names none of %v, or not what is wrong: %s", broken, policy.HaltMessage)
	}

	w.commit(t, "the cure", files("3", "v3"))
	w.settled(t, "3")
	given := w.orders(t)
	if len(given) != nodes+2 {
		t.Fatalf("%d pods were deleted, want one for each node and 2 that had broken: %v", len(given), given)
	}
	cured := []string{given[2].node, given[3].node}
	if slices.Sort(cured); !slices.Equal(cured, broken) {
		t.Errorf("%v were visited first, want the broken ones, %v; all in order: %v", cured, broken, given)
		t.Logf("history: %+v", w.history(t))
	}
	w.withinBudget(t, 4)
	if s, err := w.status(t); err != nil || s.Policies[0].Halted {
		t.Errorf("still halted: %+v (%v)", s.Policies, err)
	}
}

func TestResumeIsHeardByTheRunningAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	files := func(version, tag string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, tag),
			"rules.yaml": rules{maxUnavailable: "4"}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1", "v1"))
	w.settled(t, "1")
	w.commit(t, "a bad build", files("2", "no-image"))
	w.halted(t, 1)

	if out, err := w.command(t, "resume", "agents").CombinedOutput(); err != nil {
		t.Fatalf("resume: %v: %s", err, out)
	}
	w.halted(t, 2) // one more node was allowed to try, and failed
}

// halted waits until the policy is halted with failed nodes, and makes sure that
// it leaves all others alone.
func (w *world) halted(t *testing.T, failed int) show.PolicyStatus {
	t.Helper()
	var policy show.PolicyStatus
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		if len(s.Policies) != 1 || !s.Policies[0].Halted || s.DaemonSets[0].Failed != failed {
			return fmt.Errorf("not halted by %d nodes: %+v %+v", failed, s.Policies, s.DaemonSets)
		}
		policy = s.Policies[0]
		return nil
	})
	w.failed(t, failed) // what a person then acknowledges is on record
	w.polled(t, 3)
	if touched := w.countByNode(t); len(touched) != failed || len(w.orders(t)) != failed {
		t.Errorf("pods were deleted on %v, want %d nodes, once each", touched, failed)
	}
	return policy
}
