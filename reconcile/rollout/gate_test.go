// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lamplighter.dev/reconcile/policy"
)

const gateDocuments = `
- {apiVersion: lamplighter.dev/v1alpha1, kind: MaintenanceWindow, metadata: {name: night}, spec: {timeZone: UTC, schedule: "0 22 * * *", duration: 6h}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: Freeze, metadata: {name: audit}, spec: {start: 2026-03-10T00:00:00Z, end: 2026-03-11T00:00:00Z, reason: audit}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: Freeze, metadata: {name: stop}, spec: {start: 2026-03-20T00:00:00Z, end: 2026-03-21T00:00:00Z, reason: all, scope: Everything}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: UpgradePolicy, metadata: {name: held}, spec: {daemonSets: [{namespace: ns, name: cni}], windows: [night]}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: UpgradePolicy, metadata: {name: eager}, spec: {daemonSets: [{namespace: ns, name: log}], windows: [night], templates: Immediately}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: MaintenanceWindow, metadata: {name: late}, spec: {timeZone: UTC, schedule: "0 0 * * *", duration: 3h}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: UpgradePolicy, metadata: {name: tardy}, spec: {daemonSets: [{namespace: ns, name: gpu}], windows: [late]}}
`

func policySet(t *testing.T, text string, daemonSets ...string) policy.Set {
	t.Helper()
	var objects []map[string]any
	if err := yaml.Unmarshal([]byte(text), &objects); err != nil {
		t.Fatal(err)
	}
	var docs []policy.Document
	for _, o := range objects {
		docs = append(docs, policy.Document{Object: o})
	}
	var sets []policy.DaemonSet
	for _, name := range daemonSets {
		sets = append(sets, policy.DaemonSet{Name: nameOf(name), UpdateStrategy: "OnDelete"})
	}
	set, problems := policy.Parse(docs, sets, instant(t, "2026-03-02T12:00:00Z"))
	for _, p := range problems {
		if p.Level == policy.Error {
			t.Fatal(p)
		}
	}
	return set
}

func TestGate(t *testing.T) {
	set := policySet(t, gateDocuments, "cni", "log", "gpu", "free")
	const (
		noon, night = "2026-03-02T12:00:00Z", "2026-03-02T23:00:00Z"
		audit, stop = "2026-03-10T23:00:00Z", "2026-03-20T23:00:00Z"
		opens, late = "2026-03-02T22:00:00Z", "2026-03-03T01:00:00Z"
	)
	tests := map[string]struct {
		change ChangeKind
		set    string
		at     string
		want   Reason
		until  string
	}{
		"a template waits for the window":           {TemplateChange, "cni", noon, WindowShut, opens},
		"and goes inside it":                        {TemplateChange, "cni", night, "", ""},
		"not in a freeze":                           {TemplateChange, "cni", audit, Frozen, "2026-03-11T00:00:00Z"},
		"Immediately does not wait":                 {TemplateChange, "log", noon, "", ""},
		"nor for a freeze of upgrades":              {TemplateChange, "log", audit, "", ""},
		"but where pods may run waits":              {PlacementChange, "log", noon, WindowShut, opens},
		"and goes inside the window, too":           {PlacementChange, "log", night, "", ""},
		"of one in no policy it does not wait":      {PlacementChange, "free", noon, "", ""},
		"a DaemonSet in no policy does not wait":    {TemplateChange, "free", noon, "", ""},
		"creating does not wait":                    {Create, "cni", noon, "", ""},
		"nor what is outside the template":          {Update, "cni", noon, "", ""},
		"deleting waits":                            {Delete, "cni", noon, WindowShut, opens},
		"also with templates: Immediately":          {Delete, "log", noon, WindowShut, opens},
		"deleting goes inside the window":           {Delete, "cni", night, "", ""},
		"what was never governed is deleted":        {Delete, "free", noon, "", ""},
		"re-creating waits":                         {Recreate, "cni", noon, WindowShut, opens},
		"it does with templates: Immediately":       {Recreate, "log", noon, WindowShut, opens},
		"re-creating goes inside the window":        {Recreate, "cni", night, "", ""},
		"what was never governed is re-created":     {Recreate, "free", noon, "", ""},
		"and what left its policy waits for that":   {Recreate, "moved", noon, WindowShut, opens},
		"what is not known is not re-created":       {Recreate, "unknown", night, WindowShut, "2026-03-03T00:00:00Z"},
		"what is not known waits":                   {Delete, "unknown", noon, WindowShut, "2026-03-03T00:00:00Z"},
		"the windows of all policies must be open":  {Delete, "unknown", night, WindowShut, "2026-03-03T00:00:00Z"},
		"and when they are, it is deleted":          {Delete, "unknown", late, "", ""},
		"a freeze of everything holds a template":   {TemplateChange, "log", stop, Frozen, "2026-03-21T00:00:00Z"},
		"and creating":                              {Create, "cni", stop, Frozen, "2026-03-21T00:00:00Z"},
		"and updating":                              {Update, "free", stop, Frozen, "2026-03-21T00:00:00Z"},
		"and deleting what was never governed":      {Delete, "free", stop, Frozen, "2026-03-21T00:00:00Z"},
		"what is not known is not allowed":          {"Patch", "free", noon, WindowShut, ""},
		"a DaemonSet that left its policy, in Git":  {Delete, "moved", noon, WindowShut, opens},
		"a DaemonSet that left Git with its policy": {Delete, "left", noon, WindowShut, opens},
		"goes inside its last window":               {Delete, "left", night, "", ""},
		"its template waits for that policy too":    {TemplateChange, "moved", noon, WindowShut, opens},
		"and goes inside the window of that":        {TemplateChange, "moved", night, "", ""},
		"also if the policy has left Git":           {TemplateChange, "left", noon, WindowShut, opens},
		"but not for one that did not hold it":      {TemplateChange, "eagerly", noon, "", ""},
		"nor if it is not known who governed":       {TemplateChange, "unknown", noon, "", ""},
		"whose windows cannot be read":              {Delete, "broken", night, WindowShut, ""},
	}
	before := policySet(t, `
- {apiVersion: lamplighter.dev/v1alpha1, kind: MaintenanceWindow, metadata: {name: old}, spec: {timeZone: UTC, schedule: "0 22 * * *", duration: 6h}}
- {apiVersion: lamplighter.dev/v1alpha1, kind: UpgradePolicy, metadata: {name: gone}, spec: {daemonSets: [{namespace: ns, name: left}], windows: [old]}}
`, "left")
	ledger := throughJSON(t, Ledger{}.Govern(before).Govern(set, nameOf("free")))
	ledger.Governed["ns/moved"] = Governance{Policy: "held"}
	ledger.Governed["ns/eagerly"] = Governance{Policy: "eager"}
	ledger.Governed["ns/broken"] = Governance{Policy: "lost"}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Gate(Change{DaemonSet: nameOf(tt.set), Kind: tt.change}, Rules{Policies: set, Ledger: ledger}, instant(t, tt.at))
			if got.Reason != tt.want || got.Allowed != (tt.want == "") {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
			if tt.until != "" && !got.Until.Equal(instant(t, tt.until)) {
				t.Errorf("until %s, want %s", got.Until, tt.until)
			}
			if !got.Allowed && got.Message == "" {
				t.Error("no message")
			}
		})
	}
}

// A lost ledger and a commit that drops a DaemonSet must not delete it by day.
func TestGateDeletesUnderLostLedger(t *testing.T) {
	noon := instant(t, "2026-03-02T12:00:00Z")
	deletion := Change{DaemonSet: nameOf("cni"), Kind: Delete}
	set := policySet(t, gateDocuments, "cni", "log", "gpu")
	set.Upgrades[0].DaemonSets = nil // as if the commit had dropped it
	if got := Gate(deletion, Rules{Policies: set, Ledger: Ledger{}}, noon); got.Allowed {
		t.Error("allowed at once, though it may have been governed")
	}
	if got := Gate(deletion, Rules{}, noon); !got.Allowed {
		t.Errorf("without any policy: got %+v, want it allowed", got)
	}
}

// What only says that a DaemonSet is in no policy does not make a ledger known
// that has lost its visits.
func TestUngovernedDaemonSetsDoNotHideALostLedger(t *testing.T) {
	l := Ledger{}.Govern(policy.Set{}, nameOf("free"))
	if _, known := l.Governed["ns/free"]; !known || !l.lost() {
		t.Errorf("got %+v, lost %t; want the DaemonSet known and the ledger lost", l, l.lost())
	}
	if l = l.Govern(policySet(t, gateDocuments, "cni", "log", "gpu")); l.lost() {
		t.Error("a ledger that knows who governs is lost")
	}
}

// The template that comes with leaving a policy waits; later ones do not.
func TestGateForgetsThePolicyForTemplates(t *testing.T) {
	noon := instant(t, "2026-03-02T12:00:00Z")
	before, after := policySet(t, gateDocuments, "cni", "log", "gpu"), policySet(t, gateDocuments, "cni", "log", "gpu")
	after.Upgrades[slices.IndexFunc(after.Upgrades, func(p policy.UpgradePolicy) bool { return p.Name == "held" })].DaemonSets = nil
	template, deletion := Change{DaemonSet: nameOf("cni"), Kind: TemplateChange}, Change{DaemonSet: nameOf("cni"), Kind: Delete}

	ledger := throughJSON(t, Ledger{}.Govern(before, nameOf("cni")).Govern(after))
	if got := Gate(template, Rules{Policies: after, Ledger: ledger}, noon); got.Allowed {
		t.Error("the template that comes with leaving is allowed at once")
	}
	if paused := ledger.Pause(Pause{Policy: "held", Reason: "CHG-7", Since: noon}); Gate(template, Rules{Policies: after, Ledger: paused}, instant(t, "2026-03-02T23:00:00Z")).Reason != Paused {
		t.Error("and while the policy is paused")
	}
	ledger = throughJSON(t, ledger.Govern(after, nameOf("cni")))
	if got := Gate(template, Rules{Policies: after, Ledger: ledger}, noon); !got.Allowed {
		t.Errorf("the next one: got %+v, want it allowed", got)
	}
	if got := Gate(deletion, Rules{Policies: after, Ledger: ledger}, noon); got.Allowed {
		t.Error("a deletion is allowed at once")
	}
	ledger = ledger.Govern(before, nameOf("cni")).Govern(after)
	if got := Gate(template, Rules{Policies: after, Ledger: ledger}, noon); got.Allowed {
		t.Error("it came back and left again, and its template is allowed at once")
	}
}

func TestGatePaused(t *testing.T) {
	set := policySet(t, gateDocuments, "cni", "log", "gpu")
	night := instant(t, "2026-03-02T23:00:00Z")
	ledger := Ledger{}.Pause(Pause{Policy: "held", Reason: "CHG-7", Since: night.Add(-time.Hour)})
	got := Gate(Change{DaemonSet: nameOf("cni"), Kind: TemplateChange}, Rules{Policies: set, Ledger: ledger}, night)
	if got.Allowed || got.Reason != Paused || got.Message != "CHG-7" {
		t.Errorf("got %+v, want Paused", got)
	}
	if got := Gate(Change{DaemonSet: nameOf("cni"), Kind: TemplateChange}, Rules{Policies: set, Ledger: ledger.Resume("held")}, night); !got.Allowed {
		t.Errorf("resumed: got %+v", got)
	}
}

// throughJSON is the ledger as the next pass reads it.
func throughJSON(t *testing.T, l Ledger) Ledger {
	t.Helper()
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var read Ledger
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// Who is held by a freeze learns its reason, not only its name.
func TestFreezeIsNamedWithItsReason(t *testing.T) {
	set := policySet(t, gateDocuments, "cni", "log", "gpu")
	set.Upgrades[1].Calendar.Freezes[0].Reason = "CHG-1234"
	got := Gate(Change{DaemonSet: nameOf("cni"), Kind: TemplateChange}, Rules{Policies: set}, instant(t, "2026-03-10T23:00:00Z"))
	if got.Reason != Frozen || got.Message != "freeze audit (CHG-1234)" {
		t.Errorf("got %+v, want the freeze with its reason", got)
	}
}
