// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// drifted is a decision about an object that somebody has changed.
func drifted(name string, action inventory.Action, reason inventory.Reason, message string) inventory.Decision {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	obj.SetName(name)
	obj.SetNamespace("agents")
	return inventory.Decision{
		ID: inventory.ID{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "agents", Name: name}, Object: obj,
		Action: action, Reason: reason, Message: message, Drifted: true,
	}
}

// driftReport is a pass with one object of each kind.
func driftReport() reconcile.Report {
	undone := drifted("undone", inventory.Apply, inventory.Drifted, `changed by "kubectl-edit": .data.key`)
	inVain := drifted("in-vain", inventory.Apply, inventory.Drifted, `changed by "kubectl-edit": .data.key`)
	changed := drifted("changed", inventory.Apply, inventory.Changed, "")
	changed.Drifted = false
	everywhere := drifted("role", inventory.Hold, inventory.Drifted, "deleted by somebody")
	everywhere.Object.SetNamespace("")
	everywhere.ID.Namespace = ""
	var r reconcile.Report
	r.Plan.Objects.Steps = [][]inventory.Decision{{
		undone, inVain, changed, everywhere,
		drifted("reported", inventory.Hold, inventory.Drifted, `changed by "kubectl-edit": .data.key`),
		drifted("fought", inventory.Hold, inventory.Fighting, `corrected 6 times within 1m0s and each time changed by "bot": .data.key`),
		drifted("waits", inventory.Hold, "WindowShut", ""),
	}}
	r.Outcomes = []inventory.Outcome{
		{ID: undone.ID, Result: inventory.ResultConfigured},
		{ID: inVain.ID, Result: inventory.ResultFailed},
		{ID: changed.ID, Result: inventory.ResultConfigured},
	}
	return r
}

func TestDriftIsToldOnceOfTheObject(t *testing.T) {
	s := newStreet()
	s.crier.hear(driftReport())
	s.crier.hear(driftReport())
	var got []string
	for len(s.crier.out) > 0 {
		e := <-s.crier.out
		got = append(got, e.Namespace+" "+e.Type+" "+e.Reason+" "+e.Regarding.Kind+"/"+e.Regarding.Namespace+"/"+e.Regarding.Name+": "+e.Note)
	}
	want := []string{
		`agents Warning DriftFought ConfigMap/agents/fought: corrected 6 times within 1m0s and each time changed by "bot": .data.key`,
		`agents Warning DriftDetected ConfigMap/agents/reported: changed by "kubectl-edit": .data.key`,
		`agents Normal DriftCorrected ConfigMap/agents/undone: changed by "kubectl-edit": .data.key`,
		`default Warning DriftDetected ConfigMap//role: deleted by somebody`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestDriftIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.pass(driftReport(), 0, nil)
	m.pass(driftReport(), 0, nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, sample := range f.GetMetric() {
			switch f.GetName() {
			case "lamplighter_drift_corrections_total":
				got["corrected"] = sample.GetCounter().GetValue()
			case "lamplighter_drifted_objects":
				got[sample.GetLabel()[0].GetValue()] = sample.GetGauge().GetValue()
			}
		}
	}
	want := map[string]float64{"corrected": 2, "Drifted": 2, "Fighting": 1, "WindowShut": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("corrections of two passes, and what stays as it is (-want +got):\n%s", diff)
	}
}
