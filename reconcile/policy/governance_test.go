// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/reconcile/window"
)

// parseCase reads a case of the catalogue that has no errors.
func parseCase(t *testing.T, file string) Set {
	t.Helper()
	archive, _ := casefile.Read(t, file)
	docs, daemonSets := fleet(t, archive)
	set, problems := Parse(docs, daemonSets, caseNow)
	if hasErrors(problems) {
		t.Fatal(problems)
	}
	return set
}

// stored is what comes back from a store that keeps JSON.
func stored(t *testing.T, docs []Document) []Document {
	t.Helper()
	data, err := json.Marshal(docs)
	if err != nil {
		t.Fatal(err)
	}
	var back []Document
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

var ignoreSource = cmp.Options{
	cmpopts.IgnoreFields(MaintenanceWindow{}, "Source"),
	cmpopts.IgnoreFields(Freeze{}, "Source"),
	cmpopts.IgnoreFields(UpgradePolicy{}, "Source"),
}

// TestRecordedSetIsTheSame: a set that was kept as JSON says what it said, with
// selectors and renamed references resolved.
func TestRecordedSetIsTheSame(t *testing.T) {
	for _, file := range []string{"complete", "defaults", "renamed", "selected-in-order", "covered-by-freezes", "calendars"} {
		t.Run(file, func(t *testing.T) {
			want := parseCase(t, "testdata/"+file+".txt")
			got, problems := ParseRecorded(stored(t, want.Documents()), caseNow)
			if hasErrors(problems) {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(want, got, ignoreSource); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGovernanceOutlivesTheDaemonSet(t *testing.T) {
	set := parseCase(t, "testdata/complete.txt")
	ds := types.NamespacedName{Namespace: "kube-system", Name: "csi-node"} // named by a selector
	want, ok := set.For(ds)
	if !ok {
		t.Fatal("no policy")
	}
	docs := set.Governing(ds)
	var kinds []string
	for _, d := range docs {
		kinds = append(kinds, d.Object["kind"].(string))
	}
	if diff := cmp.Diff([]string{KindUpgradePolicy, KindMaintenanceWindow, KindMaintenanceWindow, KindFreeze, KindFreeze}, kinds); diff != "" {
		t.Error(diff)
	}
	got, err := ParseGovernance(stored(t, docs))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignoreSource); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if set.Governing(types.NamespacedName{Name: "none"}) != nil {
		t.Error("a DaemonSet in no policy is governed")
	}
}

// TestRecordedCalendarIsSmall: of a calendar only what matters is kept, and it
// freezes what it froze.
func TestRecordedCalendarIsSmall(t *testing.T) {
	set := parseCase(t, "testdata/calendars.txt")
	docs := stored(t, set.Governing(types.NamespacedName{Namespace: "kube-system", Name: "calico-node"}))
	if len(docs) != 2 || strings.Contains(docs[1].Calendar, "VERSION") || !strings.Contains(docs[1].Calendar, "Christmas") {
		t.Fatalf("kept: %+v", docs)
	}
	p, err := ParseGovernance(docs)
	if err != nil {
		t.Fatal(err)
	}
	christmas := time.Date(2031, 12, 25, 12, 0, 0, 0, time.UTC)
	if s := p.Calendar.At(christmas).Any(); !s.Frozen || !strings.Contains(s.Explain(), "holidays (Christmas Day; nobody is there)") {
		t.Error(s.Explain())
	}
	docs[1].Calendar = ""
	if p, err := ParseGovernance(docs); err == nil || p.Calendar.At(caseNow).Any().Open {
		t.Errorf("the calendar is lost, and %v", err)
	}
}

// TestBrokenGovernanceIsShut: what cannot be read again opens nothing.
func TestBrokenGovernanceIsShut(t *testing.T) {
	set := parseCase(t, "testdata/complete.txt")
	whole := set.Governing(types.NamespacedName{Namespace: "kube-system", Name: "csi-node"})
	for name, docs := range map[string][]Document{
		"nothing":          nil,
		"a window is lost": slices.Delete(slices.Clone(whole), 1, 2),
		"the policy twice": append(slices.Clone(whole), whole[0]),
		"no policy":        whole[1:],
		"not an object":    {{}},
	} {
		p, err := ParseGovernance(docs)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if p.Calendar.At(caseNow).Any().Open {
			t.Errorf("%s: open", name)
		}
	}
}

// TestDocumentsLeaveTheSourceAlone: the set's documents are shared with the
// render.
func TestDocumentsLeaveTheSourceAlone(t *testing.T) {
	set := parseCase(t, "testdata/complete.txt")
	before := stored(t, []Document{set.Upgrades[0].Source})
	set.Documents()
	if diff := cmp.Diff(before, stored(t, []Document{set.Upgrades[0].Source})); diff != "" {
		t.Error(diff)
	}
}

func TestMaxUnavailableOf(t *testing.T) {
	tests := []struct {
		value intstr.IntOrString
		nodes int
		want  int
	}{
		{intstr.FromInt32(1), 500, 1},
		{intstr.FromInt32(7), 3, 7},
		{intstr.FromString("10%"), 500, 50},
		{intstr.FromString("10%"), 11, 2},
		{intstr.FromString("1%"), 3, 1},
		{intstr.FromString("100%"), 3, 3},
		{intstr.FromString("10%"), 0, 1},
		{intstr.FromString("nonsense"), 500, 1},
		{intstr.IntOrString{}, 500, 1},
	}
	for _, test := range tests {
		if got := (UpgradePolicy{MaxUnavailable: test.value}).MaxUnavailableOf(test.nodes); got != test.want {
			t.Errorf("%s of %d nodes: %d, want %d", test.value.String(), test.nodes, got, test.want)
		}
	}
}

// TestFreezesReachTheCalendars: both scopes stop visits; only Everything stops
// the rest, and a freeze for other policies stops neither.
func TestFreezesReachTheCalendars(t *testing.T) {
	set := parseCase(t, "testdata/complete.txt")
	p := set.Upgrades[0]
	names := func(c window.Calendar) (out []string) {
		for _, f := range c.Freezes {
			out = append(out, f.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"payday", "year-end"}, names(p.Calendar)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"payday"}, names(set.Everything())); diff != "" {
		t.Error(diff)
	}
	payday := time.Date(2026, 2, 25, 12, 0, 0, 0, time.UTC)
	if set.Everything().At(payday).Any().Open || !set.Everything().At(payday.AddDate(0, 0, 1)).Any().Open {
		t.Error("payday does not stop everything, or the day after does")
	}
	if (Freeze{Policies: []string{"other"}}).appliesTo("cni") {
		t.Error("a freeze for another policy applies")
	}
}

// TestOrderDoesNotMatter: documents and DaemonSets come in the order of files.
func TestOrderDoesNotMatter(t *testing.T) {
	for _, file := range []string{"complete", "daemonset-references", "wrong-types", "schedules"} {
		archive, _ := casefile.Read(t, "testdata/"+file+".txt")
		docs, daemonSets := fleet(t, archive)
		wantSet, wantProblems := Parse(docs, daemonSets, caseNow)
		slices.Reverse(docs)
		slices.Reverse(daemonSets)
		set, problems := Parse(docs, daemonSets, caseNow)
		if diff := cmp.Diff(wantProblems, problems); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		if diff := cmp.Diff(wantSet, set); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}
