// SPDX-License-Identifier: Apache-2.0

package rollout

import "lamplighter.dev/reconcile/health"

// applyTemplates applies the templates that wait and need not any more.
func (s *simulation) applyTemplates() (applied bool) {
	rules := Rules{Ledger: s.obs.Ledger, ClockProblem: s.obs.ClockProblem}
	for _, p := range s.policies {
		for _, name := range p.DaemonSets {
			if d := s.sets[name]; d != nil && s.pending(d) && rules.templateOf(p, TemplateChange, s.now).Allowed {
				d.TemplatePending, d.Revision, d.TemplateGeneration, applied = false, s.nextRevision(d), 0, true
			}
		}
	}
	return applied
}

// pending says that a DaemonSet is to get another template.
func (s *simulation) pending(d *health.DaemonSet) bool {
	r := s.obs.Ledger.Reversal(d.Name)
	if r != nil && r.From == d.Revision {
		_, kept := d.RevisionAt(r.To)
		return kept
	}
	return d.TemplatePending
}

// nextRevision is the one that a DaemonSet gets with it.
func (s *simulation) nextRevision(d *health.DaemonSet) string {
	if r := s.obs.Ledger.Reversal(d.Name); r != nil && r.Marks(s.obs.Rendered[d.Name]) {
		return r.To
	}
	return simulatedRevision
}

// simulatedRevision is that of a template which is not applied yet.
const simulatedRevision = "next"
