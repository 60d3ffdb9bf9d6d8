// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/rollout"
)

// runs is a gate with a Job, which the sandbox lets succeed at once unless its
// image has a fault.
func runs(name, when, tag, timeout string) string {
	return fmt.Sprintf(`  - name: %s
    job:
      when: %s
      timeout: %s
      spec: {template: {spec: {terminationGracePeriodSeconds: 0, containers: [{name: check, image: "example.com/check:%s"}]}}}
`, name, when, timeout, tag)
}

// Every node is checked before and after its visit, by one Job each, whatever
// becomes of the agent.
func TestJobsRunBeforeAndAfterEachVisit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "12", fields: "  gates:\n" + runs("idle", "Before", "v1", "5m") + runs("smoke", "After", "v1", "5m")}.yaml(w),
	}))
	w.settled(t, "1")
	if jobs := w.jobs(t); len(jobs) > 0 {
		t.Fatalf("%d Jobs ran though no node was visited", len(jobs))
	}

	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(context.Context) error {
		if len(w.jobs(t)) == 0 {
			return fmt.Errorf("no Job runs yet")
		}
		return nil
	})
	first.stop(t)
	w.start(t)
	w.settled(t, "2")
	w.visited(t)
	deleted := map[string]metav1.Time{}
	for _, o := range w.orders(t) {
		deleted[o.node] = metav1.NewTime(o.at)
	}
	byNode := map[string]map[string]batchv1.Job{}
	for _, job := range w.jobs(t) {
		node, gate := job.Labels[cluster.JobNodeLabel], job.Labels[cluster.JobGateLabel]
		if byNode[node] == nil {
			byNode[node] = map[string]batchv1.Job{}
		}
		if _, twice := byNode[node][gate]; twice || job.Status.Succeeded != 1 {
			t.Errorf("node %s, gate %s: a second Job, or one that has not succeeded: %+v", node, gate, job.Status)
		}
		byNode[node][gate] = job
	}
	if len(byNode) != nodes || len(deleted) != nodes {
		t.Errorf("Jobs ran on %d nodes, pods were deleted on %d, want %d", len(byNode), len(deleted), nodes)
	}
	for node, jobs := range byNode {
		at := deleted[node]
		if before := jobs["idle"].Status.CompletionTime; before == nil || at.Before(before) {
			t.Errorf("node %s: its pod was deleted at %s, its Job was done at %s", node, at, before)
		}
		if after := jobs["smoke"].CreationTimestamp; after.Before(&at) {
			t.Errorf("node %s: its pod was deleted at %s, the Job for afterwards is of %s", node, at, after)
		}
	}
}

// A node whose Job fails before its visit is left alone.
func TestJobThatFailsBeforeAVisitLeavesTheNodeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "12", maxFailures: 12, fields: "  gates:\n" + runs("idle", "Before", "no-image", "2s")}.yaml(w),
	}))
	w.settled(t, "1")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		shut := 0
		for _, n := range s.Nodes {
			if n.Reason == string(rollout.GateShut) && strings.HasPrefix(n.Message, "gate idle: Job lamplighter-idle-") {
				shut++
			}
		}
		if shut == 0 {
			return fmt.Errorf("no node is held by its Job: %+v", s.Nodes)
		}
		return nil
	})
	w.settled(t, "1") // no pod of the agent has gone
	if failures := w.stateNow(t).Ledger.Failures; len(failures) > 0 {
		t.Errorf("failures %+v, want none: nothing was done to a node", failures)
	}
}

// A Job that fails after a visit halts the policy.
func TestJobThatFailsAfterAVisitHaltsThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "12", fields: "  gates:\n" + runs("smoke", "After", "no-image", "2s")}.yaml(w),
	}))
	w.settled(t, "1")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	failures := w.failed(t, 1)
	if s, err := w.status(t); err != nil || len(s.Policies) != 1 || !s.Policies[0].Halted {
		t.Errorf("not halted: %+v, %v", s.Policies, err)
	}
	if len(failures) != 1 || failures[0].Gate != "smoke" || !strings.Contains(failures[0].Message, "gate smoke: Job lamplighter-smoke-") {
		t.Fatalf("failures %+v, want one of gate smoke", failures)
	}
	touched := map[string]bool{}
	for _, o := range w.orders(t) {
		touched[o.node] = true
	}
	if len(touched) != 1 || !touched[failures[0].Node] {
		t.Errorf("pods were deleted on %v, want %s only: no visit had settled on the revision", touched, failures[0].Node)
	}
}

// jobs are those of the instance.
func (w *world) jobs(t *testing.T) []batchv1.Job {
	t.Helper()
	list, err := w.Client.BatchV1().Jobs(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: cluster.JobInstanceLabel + "=" + w.instance.ID()})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// failed waits until the record holds so many failures: status decides for itself,
// and may know of one before the agent has written it down.
func (w *world) failed(t *testing.T, n int) []rollout.Failure {
	t.Helper()
	var failures []rollout.Failure
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if found := len(state.Ledger.Failures); err == nil && found < n {
			err = fmt.Errorf("%d failures are recorded, not %d", found, n)
		}
		failures = state.Ledger.Failures
		return err
	})
	return failures
}

// visited waits until no visit is open.
func (w *world) visited(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err == nil && len(state.Ledger.Visits) > 0 {
			err = fmt.Errorf("%d visits are open, the first %+v", len(state.Ledger.Visits), state.Ledger.Visits[0])
		}
		return err
	})
}
