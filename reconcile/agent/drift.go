// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// driftsOf are the objects that somebody else has changed, and what this pass made
// of it. The same change of the same object is told of once.
func driftsOf(report reconcile.Report) []happening {
	uids := map[inventory.ID]types.UID{}
	for _, c := range report.Observation.Changes {
		if c.Live != nil {
			uids[c.ID] = c.Live.GetUID()
		}
	}
	corrected := corrections(report)
	var out []happening
	for _, d := range report.Plan.Objects.Where(func(d inventory.Decision) bool { return d.Drifted }) {
		if len(out) == mostFailures {
			break
		}
		h := happening{object: d.Object, uid: uids[d.ID], note: cmp.Or(d.Message, "changed by somebody"), once: inventory.Format(d.ID) + d.Message}
		switch {
		case corrected[d.ID]:
			h.reason = driftCorrected
		case d.Action == inventory.Hold && d.Reason == inventory.Drifted:
			h.reason = driftDetected
		case d.Action == inventory.Hold && d.Reason == inventory.Fighting:
			h.reason = driftFought
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// corrections are the objects of which this pass has undone what somebody did.
func corrections(report reconcile.Report) map[inventory.ID]bool {
	tried := map[inventory.ID]bool{}
	for d := range report.Plan.Objects.All() {
		tried[d.ID] = d.Drifted && d.Action == inventory.Apply
	}
	done := map[inventory.ID]bool{}
	for _, o := range report.Outcomes {
		switch o.Result {
		case inventory.ResultCreated, inventory.ResultConfigured:
			done[o.ID] = tried[o.ID]
		}
	}
	return done
}
