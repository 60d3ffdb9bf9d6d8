// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// The fleet's window is open from ten to eleven.
var (
	shut   = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	opens  = shut.Add(time.Hour)
	open   = opens.Add(time.Minute)
	agents = types.NamespacedName{Namespace: "agents", Name: "cni"}
)

const governed = `
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: night}
spec: {start: 2026-12-01T10:00:00Z, end: 2026-12-01T11:00:00Z}
---
apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: network}
spec:
  daemonSets: [{namespace: agents, name: cni}]
  windows: [night]
  visitDuration: 1m
`

func TestTemplateIsHeldWhileTheWindowIsShut(t *testing.T) {
	obs := observe(t, governed)
	obs.Changes = []inventory.Change{templateChange(t)}
	plan := mustPlan(t, obs, shut)
	want := map[string]string{"DaemonSet/agents/cni": "Hold WindowShut until 2026-12-01T10:00:00Z"}
	if diff := cmp.Diff(want, objectDecisions(plan)); diff != "" {
		t.Error(diff)
	}
	if !plan.NextLook.Equal(opens) {
		t.Errorf("next look at %s, want it when the window opens, %s", plan.NextLook, opens)
	}
}

func TestTemplateIsAppliedWhenTheWindowOpens(t *testing.T) {
	obs := observe(t, governed)
	obs.Changes = []inventory.Change{templateChange(t)}
	want := map[string]string{"DaemonSet/agents/cni": "Apply Changed"}
	if diff := cmp.Diff(want, objectDecisions(mustPlan(t, obs, open))); diff != "" {
		t.Error(diff)
	}
}

func TestNoNodeIsVisitedBeforeItsNewTemplateIsLive(t *testing.T) {
	obs := observe(t, governed)
	obs.Pods[0].Hash = "older" // a pod that the live revision would replace
	if got := evictionCount(mustPlan(t, obs, open)); got != 1 {
		t.Fatalf("%d evictions without a change of the template, want 1", got)
	}
	obs.Changes = []inventory.Change{templateChange(t)}
	if got := evictionCount(mustPlan(t, obs, open)); got != 0 {
		t.Errorf("%d evictions while a newer template waits, want none", got)
	}
}

func TestChangeOutsideTheTemplateIsNotHeld(t *testing.T) {
	obs := observe(t, governed)
	c := templateChange(t)
	c.TemplateChanged = false
	obs.Changes = []inventory.Change{c}
	want := map[string]string{"DaemonSet/agents/cni": "Apply Changed"}
	if diff := cmp.Diff(want, objectDecisions(mustPlan(t, obs, shut))); diff != "" {
		t.Error(diff)
	}
}

func TestDeletionWaitsForTheLastPolicyThatGoverned(t *testing.T) {
	obs := observe(t, governed)
	before := mustPlan(t, obs, shut) // the ledger learns who governs

	obs = observe(t, "")
	obs.State.Ledger = before.Rollout.Ledger
	obs.State.Inventory = inventory.NewSet(daemonSetID(agents), configMap("keep"), configMap("keep2"))
	obs.Changes = []inventory.Change{unchanged(configMap("keep")), unchanged(configMap("keep2"))}
	obs.Orphans = []inventory.Live{{ID: daemonSetID(agents), UID: "ds", Annotations: owned}}

	got := objectDecisions(mustPlan(t, obs, shut))["DaemonSet/agents/cni"]
	if want := "Hold WindowShut until 2026-12-01T10:00:00Z"; got != want {
		t.Errorf("while shut: %s, want %s", got, want)
	}
	got = objectDecisions(mustPlan(t, obs, open))["DaemonSet/agents/cni"]
	if want := "Prune Orphaned"; got != want {
		t.Errorf("while open: %s, want %s", got, want)
	}
}

func TestFreezeOfEverythingHoldsEveryObject(t *testing.T) {
	obs := observe(t, governed+`
---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: inventory-day}
spec: {start: 2026-12-01T08:00:00Z, end: 2026-12-01T20:00:00Z, scope: Everything}
`)
	obs.State.Inventory = inventory.NewSet(configMap("new"), configMap("gone"), configMap("same"))
	obs.Changes = []inventory.Change{created(configMap("new")), unchanged(configMap("same"))}
	obs.Orphans = []inventory.Live{{ID: configMap("gone"), UID: "cm", Annotations: owned}}
	want := map[string]string{
		"ConfigMap/agents/new":  "Hold Frozen until 2026-12-01T20:00:00Z",
		"ConfigMap/agents/gone": "Hold Frozen until 2026-12-01T20:00:00Z",
		"ConfigMap/agents/same": "Keep Unchanged",
	}
	if diff := cmp.Diff(want, objectDecisions(mustPlan(t, obs, open))); diff != "" {
		t.Error(diff)
	}
}

func TestConfigMapOfALivePodOrTemplateIsNotPruned(t *testing.T) {
	obs := observe(t, governed)
	mounted, referenced, free := configMap("mounted"), configMap("referenced"), configMap("free")
	obs.State.Inventory = inventory.NewSet(mounted, referenced, free, configMap("a"), configMap("b"), configMap("c"), configMap("d"))
	for _, name := range []string{"a", "b", "c", "d"} {
		obs.Changes = append(obs.Changes, unchanged(configMap(name)))
	}
	for _, id := range []inventory.ID{mounted, referenced, free} {
		obs.Orphans = append(obs.Orphans, inventory.Live{ID: id, UID: types.UID(id.Name), Annotations: owned})
	}
	obs.Pods[0].References = []inventory.ID{mounted}
	obs.DaemonSets[0].Template = &corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "referenced"}},
	}}}}
	got := objectDecisions(mustPlan(t, obs, open))
	want := map[string]string{
		"ConfigMap/agents/mounted":    "Hold InUse",
		"ConfigMap/agents/referenced": "Hold InUse",
		"ConfigMap/agents/free":       "Prune Orphaned",
	}
	for object, decision := range want {
		if got[object] != decision {
			t.Errorf("%s: %s, want %s", object, got[object], decision)
		}
	}
}

// A kustomization's namespace is on every object whose kind kustomize does not know.
func TestWhatIsInNoNamespaceIsKnownWhateverTheKustomizationPutOnIt(t *testing.T) {
	obs := observe(t, governed)
	bundle := inventory.ID{GroupKind: schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}, Name: "roots"}
	obs.Pods[0].References = []inventory.ID{bundle}
	here, there := bundle, bundle // as kustomizations of two namespaces had it
	here.Namespace, there.Namespace = "here", "there"
	obs.State.Inventory = inventory.NewSet(here, there, configMap("a"), configMap("b"))
	obs.Changes = []inventory.Change{unchanged(configMap("a")), unchanged(configMap("b"))}
	obs.Orphans = []inventory.Live{{ID: here, UID: "bundle", Annotations: owned}, {ID: there, UID: "bundle", Annotations: owned}}
	decided := objectDecisions(mustPlan(t, obs, open))
	for _, id := range []inventory.ID{here, there} {
		if got := decided[inventory.Format(id)]; got != "Hold InUse" {
			t.Errorf("decided %s about %s, want Hold InUse", got, inventory.Format(id))
		}
	}
}

func TestRightsStayWhileADaemonSetWaits(t *testing.T) {
	obs := observe(t, governed)
	binding := inventory.ID{GroupKind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}, Name: "cni"}
	obs.State.Inventory = inventory.NewSet(daemonSetID(agents), binding, configMap("a"), configMap("b"))
	obs.Orphans = []inventory.Live{{ID: binding, UID: "binding", Annotations: owned}}
	others := []inventory.Change{unchanged(configMap("a")), unchanged(configMap("b"))}

	obs.Changes = append(others, templateChange(t))
	if got := objectDecisions(mustPlan(t, obs, shut))["ClusterRoleBinding/cni"]; got != "Hold InUse" {
		t.Errorf("while the new template waits: %s, want Hold InUse", got)
	}
	obs.Changes = append(others, unchanged(daemonSetID(agents)))
	obs.Pods[0].Hash = "older"
	if got := objectDecisions(mustPlan(t, obs, shut))["ClusterRoleBinding/cni"]; got != "Hold InUse" {
		t.Errorf("while an old pod runs: %s, want Hold InUse", got)
	}
	obs.Pods[0].Hash = "live"
	if got := objectDecisions(mustPlan(t, obs, shut))["ClusterRoleBinding/cni"]; got != "Prune Orphaned" {
		t.Errorf("when all is as Git says: %s, want Prune Orphaned", got)
	}
}

func TestWithoutACommitNothingIsAppliedAndVisitsGoOn(t *testing.T) {
	obs := observe(t, governed)
	obs.Fleet = nil
	obs.Pods[0].Hash = "older"
	obs.State.Inventory = inventory.NewSet(configMap("kept"))
	plan := mustPlan(t, obs, open)
	if decisions := objectDecisions(plan); len(decisions) != 0 {
		t.Errorf("decisions about objects without a commit: %v", decisions)
	}
	if !plan.Objects.Next.Equal(obs.State.Inventory) {
		t.Error("the inventory changed without a commit")
	}
	if got := evictionCount(plan); got != 1 {
		t.Errorf("%d evictions under the policies on record, want 1", got)
	}
}

func TestWithoutACommitNoNodeIsVisitedForATemplateThatWaits(t *testing.T) {
	obs := observe(t, governed)
	obs.Fleet = nil
	obs.Pods[0].Hash = "older"
	obs.State.Record.Objects = []ObjectNote{{Object: "DaemonSet/agents/cni", Action: "Hold", Reason: "WindowShut"}}
	if got := evictionCount(mustPlan(t, obs, open)); got != 0 {
		t.Errorf("%d evictions, want none: the node would be visited twice", got)
	}
}

func TestWhatFailedWaitsBeforeItIsTriedAgain(t *testing.T) {
	obs := observe(t, governed)
	id := configMap("bad")
	obs.Changes = []inventory.Change{created(id)}
	obs.Waiting = map[inventory.ID]Retry{id: {Reason: inventory.Failing, At: shut.Add(5 * time.Second), Message: "no"}}
	want := map[string]string{"ConfigMap/agents/bad": "Hold Failing until 2026-12-01T09:00:05Z"}
	if diff := cmp.Diff(want, objectDecisions(mustPlan(t, obs, shut))); diff != "" {
		t.Error(diff)
	}
}

var (
	us    = inventory.Instance{Namespace: "lamplighter-system", Name: "lamplighter"}
	owned = map[string]string{inventory.OwnerAnnotation: us.ID()}
)

// observe is a cluster of one node with one pod of the DaemonSet agents/cni, up
// to date and settled, under the given policy documents.
func observe(t *testing.T, documents string) Observation {
	t.Helper()
	fleet := fleetOf(t, documents)
	long := shut.Add(-24 * time.Hour)
	return Observation{
		Instance: us, Fleet: fleet, Policies: fleet.Policies, Supposed: true,
		Nodes: []health.Node{{Name: "n1", Ready: true}},
		DaemonSets: []health.DaemonSet{{
			Name: agents, UID: "ds", Revision: "live", RevisionObserved: true, OnDelete: true, Template: &corev1.PodSpec{},
		}},
		Pods: []*health.Pod{{
			Name: types.NamespacedName{Namespace: "agents", Name: "cni-1"}, UID: "pod", Node: "n1", Owner: "ds",
			Hash: "live", Phase: corev1.PodRunning, Created: long, Ready: true, ReadySince: long,
		}},
	}
}

func mustPlan(t *testing.T, obs Observation, now time.Time) Plan {
	t.Helper()
	plan, err := New(obs, now)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// objectDecisions writes decisions as "Action Reason until T".
func objectDecisions(plan Plan) map[string]string {
	out := map[string]string{}
	for _, d := range plan.Objects.Decisions() {
		text := string(d.Action) + " " + string(d.Reason)
		if !d.Until.IsZero() {
			text += " until " + d.Until.UTC().Format(time.RFC3339)
		}
		out[inventory.Format(d.ID)] = text
	}
	return out
}

func evictionCount(plan Plan) int {
	n := 0
	for _, d := range plan.Rollout.Decisions {
		if d.Action == rollout.Evict {
			n++
		}
	}
	return n
}

func configMap(name string) inventory.ID {
	id, err := inventory.ParseFormat("ConfigMap/agents/" + name)
	if err != nil {
		panic(err)
	}
	return id
}

func object(id inventory.ID) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("v1")
	if id.GroupKind == daemonSetKind {
		o.SetAPIVersion("apps/v1")
	}
	o.SetKind(id.GroupKind.Kind)
	o.SetNamespace(id.Namespace)
	o.SetName(id.Name)
	return o
}

func unchanged(id inventory.ID) inventory.Change {
	return inventory.Change{ID: id, Kind: inventory.None, Object: object(id), Owner: us.ID()}
}

func created(id inventory.ID) inventory.Change {
	return inventory.Change{ID: id, Kind: inventory.Create, Object: object(id)}
}

func templateChange(t *testing.T) inventory.Change {
	t.Helper()
	id := daemonSetID(agents)
	return inventory.Change{ID: id, Kind: inventory.Update, Object: object(id), TemplateChanged: true, Owner: us.ID()}
}

// What a lost ledger held is found again from the pods: the node that is on its
// way holds the policy's only slot.
func TestLostLedgerDoesNotStartAVisitTooMany(t *testing.T) {
	obs := observe(t, governed)
	obs.Nodes = append(obs.Nodes, health.Node{Name: "n2", Ready: true})
	settling := *obs.Pods[0]
	settling.Created, settling.Ready, settling.ReadySince = open.Add(-time.Second), false, time.Time{}
	outdated := *obs.Pods[0]
	outdated.Name.Name, outdated.UID, outdated.Node, outdated.Hash = "cni-2", "pod-2", "n2", "older"
	obs.Pods = []*health.Pod{&settling, &outdated}

	if got := evictionCount(mustPlan(t, obs, open)); got != 0 {
		t.Errorf("%d evictions beside a node that is on its way, want none", got)
	}
}

func TestDaemonSetOfAnotherInstanceIsNotVisited(t *testing.T) {
	obs := observe(t, governed)
	obs.Pods[0].Hash = "older"
	c := templateChange(t)
	c.TemplateChanged, c.Owner = false, "elsewhere.lamplighter"
	obs.Changes = []inventory.Change{c}
	d := mustPlan(t, obs, open).Rollout.Decisions[0]
	if d.Action != rollout.Hold || d.Reason != rollout.DaemonSetHeld || d.Message != "owned by inventory elsewhere.lamplighter" {
		t.Errorf("decided %s %s %q, want it held for its owner", d.Action, d.Reason, d.Message)
	}
}

// A template that was applied a moment ago may not have reached the watch, and
// the next commit may let go of what only it mentions.
func TestNothingIsPrunedThatATemplateNotSeenYetMayMention(t *testing.T) {
	obs := observe(t, governed)
	free, role := configMap("free"), inventory.ID{Name: "free", GroupKind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}}
	obs.State.Inventory = inventory.NewSet(free, role, configMap("a"), configMap("b"), configMap("c"))
	obs.Changes = []inventory.Change{unchanged(configMap("a")), unchanged(configMap("b")), unchanged(configMap("c"))}
	obs.Orphans = []inventory.Live{{ID: free, UID: "cm", Annotations: owned}, {ID: role, UID: "role", Annotations: owned}}
	obs.DaemonSets[0].RevisionObserved = false
	got := objectDecisions(mustPlan(t, obs, open))
	if want := "Hold InUse"; got["ConfigMap/agents/free"] != want {
		t.Errorf("ConfigMap: %s, want %s", got["ConfigMap/agents/free"], want)
	}
	if want := "Prune Orphaned"; got["ClusterRole/free"] != want {
		t.Errorf("ClusterRole, which no template mentions: %s, want %s", got["ClusterRole/free"], want)
	}
}
