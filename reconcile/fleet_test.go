// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

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
	if err == nil || !strings.HasPrefix(err.Error(), "all.yaml: line 2: DaemonSet/") || !strings.Contains(err.Error(), ": metadata.namespace: is missing: set it") {
		t.Errorf("got %v, want it to name the file and ask for a namespace", err)
	}
}

const christmas = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20201225\nRRULE:FREQ=YEARLY\nSUMMARY:Christmas Day\nEND:VEVENT\nEND:VCALENDAR\n"

// TestCalendarOfAFreeze: the file is beside the one that holds the freeze; an
// overlay names another one from there, or from the root of the repository.
func TestCalendarOfAFreeze(t *testing.T) {
	boxing := strings.NewReplacer("1225", "1226", "Christmas", "Boxing").Replace(christmas)
	tree := func(patched string) fstest.MapFS {
		overlay := "resources: [../base]\n"
		if patched != "" {
			overlay += "patches: [{target: {kind: Freeze}, patch: '[{\"op\": \"replace\", \"path\": \"/spec/calendar\", \"value\": \"" + patched + "\"}]'}]\n"
		}
		return fstest.MapFS{
			"base/kustomization.yaml": {Data: []byte("resources: [daemonset.yaml, policies/all.yaml]\n")},
			"base/daemonset.yaml":     {Data: []byte(daemonSet)},
			"base/policies/all.yaml": {Data: []byte(governed + `
---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: holidays}
spec: {timeZone: UTC, calendar: holidays.ics}
`)},
			"base/policies/holidays.ics": {Data: []byte(christmas)},
			"prod/kustomization.yaml":    {Data: []byte(overlay)},
			"prod/uk.ics":                {Data: []byte(boxing)},
			"prod/large.ics":             {Data: []byte(christmas + strings.Repeat("\n", maxCalendar))},
		}
	}
	for _, tt := range []struct{ patched, event, err string }{
		{"", "Christmas Day", ""},
		{"../../prod/uk.ics", "Boxing Day", ""},
		{"/prod/uk.ics", "Boxing Day", ""},
		{"uk.ics", "", "base/policies/all.yaml: line 16: Freeze/holidays: spec.calendar: base/policies/uk.ics: does not exist"},
		{"../../../uk.ics", "", "base/policies/all.yaml: line 16: Freeze/holidays: spec.calendar: ../../../uk.ics: leaves the repository"},
		{"/prod/large.ics", "", "base/policies/all.yaml: line 16: Freeze/holidays: spec.calendar: prod/large.ics: is larger than 1024 KiB"},
		{"/prod/kustomization.yaml", "", "base/policies/all.yaml: line 16: Freeze/holidays: spec.calendar: /prod/kustomization.yaml: is not an iCalendar file: "},
	} {
		fleet, err := Read(t.Context(), tree(tt.patched), "prod", Commit{}, shut)
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %s", tt.patched, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tt.patched, err)
			continue
		}
		day := time.Date(2030, 12, 25, 12, 0, 0, 0, time.UTC)
		if tt.event == "Boxing Day" {
			day = day.AddDate(0, 0, 1)
		}
		p, _ := fleet.Policies.For(agents)
		if s := p.Calendar.At(day).Any(); !s.Frozen || !strings.Contains(s.Explain(), tt.event) {
			t.Errorf("%q: %s", tt.patched, s.Explain())
		}
	}
}

// TestCalendarOutlivesGit: what is on record freezes without the repository.
func TestCalendarOutlivesGit(t *testing.T) {
	fleet, err := Read(t.Context(), fstest.MapFS{
		"daemonset.yaml": {Data: []byte(daemonSet)},
		"holidays.ics":   {Data: []byte(christmas)},
		"policies.yaml": {Data: []byte(governed + `
---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: holidays}
spec: {timeZone: UTC, calendar: holidays.ics, scope: Everything}
`)},
	}, ".", Commit{Hash: "c0ffee"}, shut)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(Record{Documents: fleet.Policies.Documents()})
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	set, err := recorded(record, shut)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2030, 12, 25, 12, 0, 0, 0, time.UTC)
	if s := set.Everything().At(at).Any(); s.Open || !strings.Contains(s.Explain(), "frozen by holidays (Christmas Day) until") {
		t.Error(s.Explain())
	}
}
