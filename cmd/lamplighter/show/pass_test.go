// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// Each case is a plan with what came of it: the plan's text, then the answer of
// apply.
func TestPassAndAppliedText(t *testing.T) {
	golden(t, "pass", func(t *testing.T, f fixture) string {
		var in struct {
			Objects []struct {
				decision
				Result, Error string // of what was tried
			}
			Evictions []struct{ Pod, Node, Result, Message, Error string }
		}
		f.decode(t, "plan.yaml", &in)
		var report reconcile.Report
		var step []inventory.Decision
		for _, o := range in.Objects {
			d := o.decode(t)
			step = append(step, d)
			if o.Result != "" {
				outcome := inventory.Outcome{ID: d.ID, Result: inventory.Result(o.Result)}
				if o.Error != "" {
					outcome.Err = errors.New(o.Error)
				}
				report.Outcomes = append(report.Outcomes, outcome)
			}
		}
		report.Plan.Objects.Steps = [][]inventory.Decision{step}
		for _, e := range in.Evictions {
			d := rollout.Decision{
				Ruling: &rollout.Ruling{Policy: "network", Action: rollout.Evict, Reason: rollout.Start},
				Node:   e.Node, Pod: &rollout.Eviction{Name: name("agents", e.Pod)},
			}
			report.Plan.Rollout.Decisions = append(report.Plan.Rollout.Decisions, d)
			a := rollout.Attempt{Decision: d, Result: rollout.AttemptResult(e.Result), Message: e.Message}
			if e.Error != "" {
				a.Err = errors.New(e.Error)
			}
			report.Attempts = append(report.Attempts, a)
		}
		var b strings.Builder
		applied := show.NewApplied(report)
		for _, err := range []error{show.WritePass(&b, report.Plan), show.WriteApplied(&b, applied)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if applied.Failed() {
			b.WriteString("[failed]\n")
		}
		return b.String()
	})
}

func TestAppliedFails(t *testing.T) {
	for _, c := range []struct {
		result, reason string
		want           bool
	}{
		{"created", "", false}, {"pruned", "", false}, {"deleting", "", false}, {"released", "", false},
		{"held", "WindowShut", false}, {"held", "InUse", false}, {"held", "MassDelete", false},
		{"held", "Failing", true}, {"held", "Unknown", true},
		{"refused", "NotOwned", true}, {"conflict", "", true}, {"skipped", "", true}, {"failed", "", true},
	} {
		a := show.Applied{Objects: []show.AppliedObject{{Result: c.result, Reason: c.reason}}}
		if got := a.Failed(); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.result, c.reason, got, c.want)
		}
	}
	refused := show.Applied{Evictions: []show.Eviction{{Result: "refused"}}}
	errored := show.Applied{Evictions: []show.Eviction{{Result: "errored"}}}
	if got := cmp.Diff([]bool{false, true}, []bool{refused.Failed(), errored.Failed()}); got != "" {
		t.Errorf("an eviction that a budget refuses comes again, one that failed has failed (-want +got):\n%s", got)
	}
}

func TestPlanTouches(t *testing.T) {
	for action, want := range map[inventory.Action]bool{
		inventory.Keep: false, inventory.Hold: false, inventory.Refuse: false,
		inventory.Apply: true, inventory.Prune: true, inventory.Release: true,
	} {
		plan := reconcile.Plan{Objects: inventory.Plan{Steps: [][]inventory.Decision{{{Action: action}}}}}
		if got := show.Touches(plan); got != want {
			t.Errorf("%s: got %v, want %v", action, got, want)
		}
	}
	evicting := reconcile.Plan{Rollout: rollout.Plan{Decisions: []rollout.Decision{{Ruling: &rollout.Ruling{Action: rollout.Evict}}}}}
	if !show.Touches(evicting) {
		t.Error("an eviction touches nothing?")
	}
}
