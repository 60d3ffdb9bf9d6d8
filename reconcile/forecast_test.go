// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// outlook writes a forecast as text: what changes for pods, the visits, and how
// each policy ends.
func outlook(f Forecast) string {
	var b strings.Builder
	for _, i := range f.Impacts {
		fmt.Fprintf(&b, "%s %s: restarts %d, starts %d, leaves %d\n", i.Change, inventory.Format(i.ID), i.Restarts, i.Starts, i.Leaves)
	}
	for _, v := range f.Rollout.Visits {
		fmt.Fprintf(&b, "visit %s %s in %s\n", v.Node, v.Start.Format(time.TimeOnly), v.Window)
	}
	for _, p := range f.Rollout.Policies {
		fmt.Fprintf(&b, "%s: ", p.Name)
		if !p.Done.IsZero() {
			fmt.Fprintf(&b, "done %s ", p.Done.Format(time.TimeOnly))
		}
		for _, d := range p.Left {
			fmt.Fprintf(&b, "left %s %s (%s) ", d.Node, d.Reason, d.Message)
		}
		b.WriteString(p.Never + "\n")
	}
	return strings.TrimSpace(b.String())
}

// withTemplate gives a change's object a pod spec.
func withTemplate(c inventory.Change, spec map[string]any) inventory.Change {
	c.Object = c.Object.DeepCopy()
	c.Object.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
	c.Merged, c.Live = c.Object, object(c.ID)
	return c
}

func TestForecast(t *testing.T) {
	zoneA := map[string]any{"nodeSelector": map[string]any{"zone": "a"}}
	for name, c := range map[string]struct {
		change func(*testing.T, *Observation)
		want   string
	}{
		"a new template waits for its window and then goes node by node": {
			func(t *testing.T, obs *Observation) {
				obs.Changes = []inventory.Change{withTemplate(templateChange(t), map[string]any{})}
			}, `
TemplateChange DaemonSet/agents/cni: restarts 2, starts 0, leaves 0
visit n1 10:00:00 in night
visit n2 10:01:00 in night
network: done 10:02:00`},
		"a placement that leaves a node ends its pod at once": {
			func(t *testing.T, obs *Observation) {
				obs.Nodes = append(obs.Nodes, health.Node{Name: "n3", Ready: true, Labels: map[string]string{"zone": "a"}})
				obs.Changes = []inventory.Change{withTemplate(templateChange(t), zoneA)}
			}, `
PlacementChange DaemonSet/agents/cni: restarts 1, starts 1, leaves 1
visit n1 10:00:00 in night
network: done 10:01:00`},
		"one that is re-created ends all its pods, and the new ones start": {
			func(t *testing.T, obs *Observation) {
				obs.Changes = []inventory.Change{withTemplate(replacement(t), zoneA)}
			}, `
Recreate DaemonSet/agents/cni: restarts 0, starts 1, leaves 2
network: done 10:01:00`},
		"a DaemonSet that leaves Git ends all its pods": {
			func(_ *testing.T, obs *Observation) {
				obs.State.Inventory = inventory.NewSet(daemonSetID(agents), configMap("a"), configMap("b"))
				obs.Changes = []inventory.Change{unchanged(configMap("a")), unchanged(configMap("b"))}
				obs.Orphans = []inventory.Live{{ID: daemonSetID(agents), UID: "ds", Annotations: owned}}
			}, `
Delete DaemonSet/agents/cni: restarts 0, starts 0, leaves 2
network:`},
		"a new DaemonSet starts where it should run": {
			func(_ *testing.T, obs *Observation) {
				id := daemonSetID(types.NamespacedName{Namespace: "agents", Name: "csi"})
				obs.Changes = []inventory.Change{withTemplate(created(id), zoneA)}
			}, `
Create DaemonSet/agents/csi: restarts 0, starts 1, leaves 0
network:`},
		"what is refused never comes": {
			func(t *testing.T, obs *Observation) {
				c := withTemplate(templateChange(t), map[string]any{})
				c.TemplateChanged = false // nobody could tell
				c.Err = &inventory.RejectedError{Message: "image: required"}
				obs.Changes = []inventory.Change{c}
			}, `
network: left n1 DaemonSetHeld (its change does not come: Rejected: image: required) left n2 DaemonSetHeld (its change does not come: Rejected: image: required) all 2 nodes that remain wait for somebody`},
	} {
		t.Run(name, func(t *testing.T) {
			obs := observe(t, governed)
			obs.Nodes[0].Labels = map[string]string{"zone": "a"}
			obs.Nodes = append(obs.Nodes, health.Node{Name: "n2", Ready: true})
			second := *obs.Pods[0]
			second.Name.Name, second.UID, second.Node = "cni-2", "pod-2", "n2"
			obs.Pods = append(obs.Pods, &second)
			c.change(t, &obs)
			got := outlook(Foresee(obs, mustPlan(t, obs, shut), shut))
			if diff := cmp.Diff(strings.TrimSpace(c.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What was foreseen does not change what was observed.
func TestForecastLeavesTheObservationAlone(t *testing.T) {
	obs := observe(t, governed)
	obs.Changes = []inventory.Change{withTemplate(templateChange(t), map[string]any{"nodeName": "elsewhere"})}
	before := observe(t, governed)
	Foresee(obs, mustPlan(t, obs, shut), shut)
	if diff := cmp.Diff(before.Pods, obs.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.DaemonSets, obs.DaemonSets); diff != "" {
		t.Errorf("DaemonSets (-want +got):\n%s", diff)
	}
}

func TestUnmatched(t *testing.T) {
	obs := observe(t, governed+`
---
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: gpu-night}
spec: {start: 2026-12-01T10:00:00Z, end: 2026-12-01T11:00:00Z, nodeSelector: {matchLabels: {pool: gpu}}}
`)
	if got := Unmatched(obs); !cmp.Equal(got, []string{"MaintenanceWindow/gpu-night: spec.nodeSelector matches no node of this cluster: pool=gpu"}) {
		t.Errorf("got %q", got)
	}
	obs.Nodes[0].Labels = map[string]string{"pool": "gpu"}
	obs.Policies.Upgrades[0].Waves = []policy.Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}, {Name: "rest"}}
	if got := Unmatched(obs); !cmp.Equal(got, []string{"UpgradePolicy/network: spec.waves: the nodeSelector of canary matches no node of this cluster: canary=true"}) {
		t.Errorf("got %q", got)
	}
	obs.Policies.Upgrades[0].Waves = nil
	if got := Unmatched(obs); got != nil {
		t.Errorf("got %q, want nothing", got)
	}
	obs.DaemonSets[0].Template = &corev1.PodSpec{NodeSelector: map[string]string{"zone": "moon"}}
	if got := Unmatched(obs); !cmp.Equal(got, []string{"DaemonSet/agents/cni: should run on no node of this cluster"}) {
		t.Errorf("got %q", got)
	}
	obs.DaemonSets = nil
	if got := Unmatched(obs); !cmp.Equal(got, []string{"UpgradePolicy/network: DaemonSet agents/cni does not exist"}) {
		t.Errorf("got %q", got)
	}
	obs.Changes = []inventory.Change{withTemplate(created(daemonSetID(agents)), map[string]any{})}
	if got := Unmatched(obs); got != nil {
		t.Errorf("got %q of one that is created, want nothing", got)
	}
}
