// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"
	"time"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Each case is a forecast: the text by window, the text by node, and Markdown.
func TestPlanText(t *testing.T) {
	golden(t, "calendar", func(t *testing.T, f fixture) string {
		var in struct {
			At      time.Time
			Objects []decision
			Impacts []struct {
				Object                   string
				Change                   rollout.ChangeKind
				Restarts, Starts, Leaves int
			}
			Policies []map[string]any // documents
			Status   []rollout.PolicyStatus
			Forecast rollout.Forecast
			Snapshot *show.SnapshotNote
		}
		f.decode(t, "plan.yaml", &in)
		var docs []policy.Document
		for _, o := range in.Policies {
			docs = append(docs, policy.Document{Object: o})
		}
		set, problems := policy.ParseRecorded(docs, in.At)
		for _, p := range problems {
			if p.Level == policy.Error {
				t.Fatal(p)
			}
		}
		obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}, Policies: set}
		var plan reconcile.Plan
		var step []inventory.Decision
		for _, o := range in.Objects {
			step = append(step, o.decode(t))
		}
		plan.Objects.Steps = [][]inventory.Decision{step}
		plan.Rollout.Policies = in.Status
		forecast := reconcile.Forecast{Rollout: in.Forecast}
		for _, i := range in.Impacts {
			id, err := inventory.ParseFormat(i.Object)
			if err != nil {
				t.Fatal(err)
			}
			forecast.Impacts = append(forecast.Impacts, reconcile.Impact{ID: id, Change: i.Change, Restarts: i.Restarts, Starts: i.Starts, Leaves: i.Leaves})
		}
		answer := show.NewPlan(obs, plan, forecast, in.At)
		answer.Snapshot = in.Snapshot
		var b strings.Builder
		for _, err := range []error{show.WritePlan(&b, answer, false), show.WritePlan(&b, answer, true), show.WriteMarkdown(&b, answer, true)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if answer.Pending() {
			b.WriteString("[pending]\n")
		}
		return b.String()
	})
}
