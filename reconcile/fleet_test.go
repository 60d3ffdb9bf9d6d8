// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"lamplighter.dev/reconcile/policy"
)

const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cni, namespace: agents}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: cni}}
  template:
    metadata: {labels: {app: cni}}
    spec: {containers: [{name: cni, image: "cni:1"}]}
`

// fleetOf reads a fleet of the DaemonSet agents/cni and the given policies.
func fleetOf(t *testing.T, policies string) *Fleet {
	t.Helper()
	fleet, err := Read(t.Context(), fstest.MapFS{
		"daemonset.yaml": {Data: []byte(daemonSet)},
		"policies.yaml":  {Data: []byte(policies)},
	}, ".", Commit{Hash: "c0ffee"}, shut)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

func TestFleetIsObjectsAndPolicies(t *testing.T) {
	fleet := fleetOf(t, governed)
	if len(fleet.Objects) != 1 || fleet.Objects[0].GetName() != "cni" {
		t.Errorf("objects %v, want the DaemonSet alone: policy kinds are never sent", fleet.Objects)
	}
	p, ok := fleet.Policies.For(agents)
	if !ok || p.Name != "network" {
		t.Errorf("policy %q governs %s, want network", p.Name, agents)
	}
	if fleet.Commit.Hash != "c0ffee" {
		t.Errorf("commit %q", fleet.Commit.Hash)
	}
}

func TestInvalidFleetListsEveryProblem(t *testing.T) {
	_, err := Read(t.Context(), fstest.MapFS{"all.yaml": {Data: []byte(governed + `
---
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: broken}
spec: {timeZone: Europe/Atlantis, schedule: "0 22 * * *", duration: 1h}
`)}}, ".", Commit{}, shut)
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	for _, p := range invalid.Problems {
		if p.Level != policy.Error {
			t.Errorf("a finding of level %s keeps the fleet from being used: %s", p.Level, p)
		}
	}
	for _, want := range []string{"Europe/Atlantis", "UpgradePolicy/network"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestDaemonSetWithoutNamespaceIsRefused(t *testing.T) {
	text := strings.Replace(daemonSet, ", namespace: agents", "", 1)
	_, err := Read(t.Context(), fstest.MapFS{"all.yaml": {Data: []byte(text)}}, ".", Commit{}, shut)
	if err == nil || !strings.HasPrefix(err.Error(), "all.yaml: DaemonSet/") || !strings.Contains(err.Error(), ": metadata.namespace is missing: set it") {
		t.Errorf("got %v, want it to name the file and ask for a namespace", err)
	}
}
