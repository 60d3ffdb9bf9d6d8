// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"testing"
	"time"

	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/why"
)

// What the API server said to an eviction that failed is told.
func TestEvictionThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*why.Input)
		want   string
	}{
		"it is awaited whether the pod goes all the same": {
			func(in *why.Input) {
				in.Observation.State.Ledger.Visits = []rollout.Visit{{Policy: "network", Node: "n1", Started: now.Add(-40 * time.Second), Steps: []rollout.Step{
					{DaemonSet: "agents/cni", From: "old", To: "new", Pod: "pod-n1", Evicted: now.Add(-40 * time.Second), Problem: "webhook guard: not tonight"},
				}}}
			}, `
wait: Checking
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  note tried: the eviction came to nothing: webhook guard: not tonight
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
  ok budget: 1 of at most 1 nodes are visited: n1
> wait admission: it is awaited whether the pod is being evicted: webhook guard: not tonight`},
		"others go first since": {
			func(in *why.Input) {
				in.Observation.Supposed = true
				in.Observation.State.Ledger.Refusals = []rollout.Refusal{{
					Policy: "network", Node: "n1", DaemonSet: "agents/cni", Pod: "pod-n1", At: now.Add(-10 * time.Minute), Errored: true,
					Message: "no eviction was possible within 1m0s: webhook guard: not tonight",
				}}
			}, `
hold: BudgetSpent
  ok commit: 0123456 cni 2, in force since 2026-11-30T20:30:00Z
  ok revision: agents/cni is at new
  ok placement: agents/cni should run here
  ok node: Ready
  ok pod: agents/cni-n1 of old: outdated, Ready since 2026-11-30T20:30:00Z
  note tried: no eviction was possible within 1m0s: webhook guard: not tonight, at 2026-11-30T21:20:00Z
  ok policy: neither paused nor halted
  ok window: night opened 21:00 UTC, closes 23:00
> wait budget: 0 of at most 1 nodes are visited; no visit has settled on new of agents/cni yet: 1 of 1 nodes try it first`},
	} {
		t.Run(name, func(t *testing.T) { checkNode(t, c.change, c.want) })
	}
}
