// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// leaving is an instance with one governed DaemonSet and what it needs, beside
// the DaemonSet of somebody else.
func leaving(t *testing.T, documents string) Observation {
	t.Helper()
	obs := observe(t, documents)
	obs.Fleet = nil
	account := inventory.ID{GroupKind: schema.GroupKind{Kind: "ServiceAccount"}, Namespace: "agents", Name: "cni"}
	role := inventory.ID{GroupKind: schema.GroupKind{Group: rightsGroup, Kind: "ClusterRole"}, Name: "cni"}
	own := inventory.ID{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: us.Namespace}
	obs.State.Inventory = inventory.NewSet(daemonSetID(agents), configMap("mounted"), configMap("free"), account, role, own)
	for _, id := range obs.State.Inventory.IDs() {
		obs.Orphans = append(obs.Orphans, inventory.Live{ID: id, UID: types.UID(id.Name), Annotations: owned})
	}
	obs.Pods[0].References = []inventory.ID{configMap("mounted"), account}
	return obs
}

func removal(t *testing.T, obs Observation, how Removal, now time.Time) map[string]string {
	t.Helper()
	plan, err := PlanRemoval(obs, how, now)
	if err != nil {
		t.Fatal(err)
	}
	return objectDecisions(Plan{Objects: plan})
}

const frozenDay = `
---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: inventory-day}
spec: {start: 2026-12-01T08:00:00Z, end: 2026-12-01T20:00:00Z, scope: Everything}
`

func TestRemovalOfADaemonSetWaitsForItsWindow(t *testing.T) {
	const pruned, waits, frozen = "Prune Orphaned", "Hold WindowShut until 2026-12-01T10:00:00Z", "Hold Frozen until 2026-12-01T20:00:00Z"
	for name, c := range map[string]struct {
		documents string
		how       Removal
		now       time.Time
		ds, other string
	}{
		"shut":                      {governed, Removal{}, shut, waits, pruned},
		"open":                      {governed, Removal{}, open, pruned, pruned},
		"shut, and that is ignored": {governed, Removal{IgnoreWindows: true}, shut, pruned, pruned},
		"let go while it is shut":   {governed, Removal{Orphan: true}, shut, "Release Detached", "Release Detached"},
		"frozen":                    {governed + frozenDay, Removal{}, open, frozen, frozen},
		"let go in a freeze":        {governed + frozenDay, Removal{Orphan: true}, open, frozen, frozen},
		"frozen, and ignored":       {governed + frozenDay, Removal{IgnoreWindows: true}, open, pruned, pruned},
	} {
		t.Run(name, func(t *testing.T) {
			got := removal(t, leaving(t, c.documents), c.how, c.now)
			if got["DaemonSet/agents/cni"] != c.ds || got["ConfigMap/agents/free"] != c.other {
				t.Errorf("got %v, want the DaemonSet %s and the ConfigMap %s", got, c.ds, c.other)
			}
		})
	}
}

// A DaemonSet that is annotated to stay goes on, with all it needs, and so does
// that of somebody else.
func TestRemovalLeavesWhatADaemonSetThatStaysNeeds(t *testing.T) {
	obs := leaving(t, governed)
	for i, o := range obs.Orphans {
		if o.ID == daemonSetID(agents) {
			obs.Orphans[i].Annotations = map[string]string{inventory.OwnerAnnotation: us.ID(), inventory.OnRemoveAnnotation: "keep"}
		}
	}
	want := map[string]string{
		"DaemonSet/agents/cni":         "Release Detached",
		"ConfigMap/agents/mounted":     "Release InUse",
		"ServiceAccount/agents/cni":    "Release InUse",
		"ClusterRole/cni":              "Release InUse",
		"ConfigMap/agents/free":        "Prune Orphaned",
		"Namespace/lamplighter-system": "Release NamespaceNotEmpty",
	}
	if diff := cmp.Diff(want, removal(t, obs, Removal{}, shut)); diff != "" {
		t.Errorf("of our own (-want +got):\n%s", diff)
	}

	obs = leaving(t, governed)
	obs.DaemonSets = append(obs.DaemonSets, health.DaemonSet{Name: types.NamespacedName{Namespace: "agents", Name: "theirs"}, UID: "theirs", RevisionObserved: true})
	pod := *obs.Pods[0]
	pod.Owner, pod.References = "theirs", []inventory.ID{configMap("free")}
	obs.Pods = append(obs.Pods, &pod)
	got := removal(t, obs, Removal{IgnoreWindows: true}, shut)
	if got["ConfigMap/agents/free"] != "Release InUse" || got["ConfigMap/agents/mounted"] != "Prune Orphaned" {
		t.Errorf("of somebody else: got %v, want only free to stay", got)
	}
}

// Pods still end after their DaemonSet is gone, and need until then what they
// mount and may.
func TestRemovalWaitsForPods(t *testing.T) {
	obs := leaving(t, governed)
	now := references(withoutRollout(obs), nil)
	plan, err := planRemoval(obs, Removal{}, now, open)
	if err != nil {
		t.Fatal(err)
	}
	got := objectDecisions(Plan{Objects: plan})
	want := map[string]string{
		"DaemonSet/agents/cni":         "Prune Orphaned",
		"ConfigMap/agents/mounted":     "Hold InUse",
		"ServiceAccount/agents/cni":    "Hold InUse",
		"ClusterRole/cni":              "Hold InUse",
		"ConfigMap/agents/free":        "Prune Orphaned",
		"Namespace/lamplighter-system": "Release NamespaceNotEmpty",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Wherever a removal dies, the next one finishes it, and nothing that exists is
// forgotten before.
func TestRemovalsConvergeWhereverTheProcessDies(t *testing.T) {
	fleet := map[string]string{"a": "1", "b": "1", "c": "1"}
	for dies := 1; ; dies++ {
		w := &world{objects: map[string]string{}}
		w.settle(t, fleet)
		w.writes, w.dies = 0, dies
		_, err := w.process().Remove(t.Context(), Removal{})
		if err == nil && w.writes < dies {
			if dies < 4 {
				t.Fatalf("a removal wrote only %d times: nothing was tested", w.writes)
			}
			return
		}
		w.check(t)
		w.writes, w.dies = 0, 0
		if _, err := w.process().Remove(t.Context(), Removal{}); err != nil {
			t.Fatal(err)
		}
		if left := slices.Collect(maps.Keys(w.objects)); len(left) > 0 || w.stored.Inventory.Len() > 0 {
			t.Errorf("died at write %d: left %v, inventory %v", dies, left, names(w.stored.Inventory))
		}
	}
}

func TestRemovalForgetsNothingThatIsStillThere(t *testing.T) {
	w := &world{objects: map[string]string{}}
	w.settle(t, map[string]string{"a": "1", "stuck": "1"})
	w.fails = "stuck"
	report, err := w.process().Remove(t.Context(), Removal{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(w.stored.Inventory); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("inventory %v, want what could not be deleted", got)
	}
	if got := w.stored.Record.Objects; len(got) != 1 || got[0].Message != "denied" || report.After.Inventory.Len() != 1 {
		t.Errorf("noted %+v, want why", got)
	}
}

// lent remembers which nodes were given back.
type lent struct{ nodes []rollout.Uncordon }

func (l *lent) Drain(context.Context, []rollout.Decision) []rollout.Attempt { return nil }

func (l *lent) Uncordon(_ context.Context, nodes []rollout.Uncordon) error {
	l.nodes = append(l.nodes, nodes...)
	return nil
}

// Nobody is left who would give nodes back later. Where somebody else is at work,
// that is waited for.
func TestRemovalGivesNodesBack(t *testing.T) {
	mark := rollout.CordonMark(us.ID(), "network")
	nodes := []health.Node{
		{Name: "ours", CordonedBy: mark, Unschedulable: true},
		{Name: "uncordoned since", CordonedBy: mark},
		{Name: "theirs", CordonedBy: rollout.CordonMark("other.them", "network"), Unschedulable: true},
		{Name: "by hand", Unschedulable: true},
		{Name: "busy", CordonedBy: mark, Unschedulable: true, AtWork: true, Maintenance: "kured reboots it"},
	}
	l := &lent{}
	r := NewReconciler(Options{Instance: us, Drainer: l})
	err := r.giveBack(t.Context(), Observation{Instance: us, Nodes: nodes})
	want := []rollout.Uncordon{{Node: "ours", Policy: "network"}, {Node: "uncordoned since", Policy: "network", MarkOnly: true}}
	if diff := cmp.Diff(want, l.nodes); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
	if err == nil || err.Error() != "node busy stays cordoned: kured reboots it" {
		t.Errorf("got %v, want the busy node named", err)
	}
}
