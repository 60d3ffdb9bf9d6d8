// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/gate"
	"lamplighter.dev/reconcile/rollout"
)

// NewAsker answers every kind of question that a plan may have.
func NewAsker(c *cluster.Cluster, now func() time.Time) *gate.Asker {
	web := gate.NewWeb()
	return gate.New(gate.Options{Now: now, Answerers: map[rollout.QuestionKind]gate.Answerer{
		rollout.Admission:      c.Admission,
		rollout.JobGate:        c.Job,
		rollout.HTTPGate:       web.HTTP,
		rollout.PrometheusGate: web.Prometheus,
		rollout.Room:           c.Room,
	}})
}
