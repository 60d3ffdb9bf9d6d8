// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/health"
)

var daemonSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}

// agent is a DaemonSet in the test's namespace.
func (w *world) agent(t testing.TB, image string) *unstructured.Unstructured {
	t.Helper()
	return w.objects(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
      - name: agent
        image: `+image+`
        resources: {requests: {cpu: 1000m, memory: 1024Mi}}`)[0]
}

// change inspects one object.
func (w *world) change(t testing.TB, obj *unstructured.Unstructured) inventory.Change {
	t.Helper()
	changes, err := w.cluster.Inspect(t.Context(), []*unstructured.Unstructured{obj})
	if err != nil {
		t.Fatal(err)
	}
	return changes[0]
}

func TestTemplateChangeIsToldFromOtherChanges(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))

	same := w.agent(t, "example.com/agent:1")
	set(t, same, "1", "spec", "template", "spec", "containers", "0", "resources", "requests", "cpu")
	set(t, same, "1Gi", "spec", "template", "spec", "containers", "0", "resources", "requests", "memory")
	if c := w.change(t, same); c.Kind != inventory.None {
		t.Errorf("the same quantities in other words: got %s, want None", c.Kind)
	}
	labelled := w.agent(t, "example.com/agent:1")
	labelled.SetLabels(map[string]string{"team": "net"})
	if c := w.change(t, labelled); c.Kind != inventory.Update || c.TemplateChanged {
		t.Errorf("a new label: got %s, template %t; want Update, false", c.Kind, c.TemplateChanged)
	}
	if c := w.change(t, w.agent(t, "example.com/agent:2")); c.Kind != inventory.Update || !c.TemplateChanged {
		t.Errorf("a new image: got %s, template %t; want Update, true", c.Kind, c.TemplateChanged)
	}
}

// A template that waits for its window is looked at once, however often the
// status moves meanwhile.
func TestHeldTemplateCostsNothing(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	held := w.agent(t, "example.com/agent:2")
	testkit.Eventually(t, patience, func(context.Context) error {
		if seen := w.requests.during(func() { w.change(t, held) }); len(seen) > 0 {
			return errors.New(strings.Join(seen, " "))
		}
		return nil
	})
	patch := `{"status":{"numberReady":7}}`
	_, err := w.Client.AppsV1().DaemonSets(w.namespace).Patch(t.Context(), "agent", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if seen := w.requests.during(func() { w.change(t, held) }); len(seen) > 0 {
		t.Errorf("asked: %v", seen)
	}
	if c := w.change(t, held); !c.TemplateChanged || c.Live == nil || c.Merged == nil {
		t.Errorf("got %+v, want the change as it was found", c)
	}
}

// A DaemonSet that kubectl applied is adopted at once if its template is the one
// in Git, and in its window if a field of the template would go away.
func TestAdoptedDaemonSetKeepsItsTemplate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		extra   bool
		changed bool
	}{{"as in Git", false, false}, {"with a field that Git has dropped", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			theirs := w.agent(t, "example.com/agent:1")
			if tc.extra {
				set(t, theirs, "true", "spec", "template", "metadata", "annotations", "extra")
			}
			_, err := w.Dynamic.Resource(daemonSets).Namespace(w.namespace).Create(t.Context(), theirs, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
			if err != nil {
				t.Fatal(err)
			}
			c := w.change(t, w.agent(t, "example.com/agent:1"))
			if c.Err != nil || c.Kind != inventory.Update || c.TemplateChanged != tc.changed {
				t.Errorf("got %s %v, template %t; want Update, %t", c.Kind, c.Err, c.TemplateChanged, tc.changed)
			}
			w.pass(t, w.agent(t, "example.com/agent:1"))
			ds, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(t.Context(), "agent", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if changed := ds.Generation != 1; changed != tc.changed {
				t.Errorf("generation: got %d; the forecast was template %t", ds.Generation, tc.changed)
			}
			if len(ds.Spec.Template.Annotations) != 0 {
				t.Errorf("template annotations: got %v, want none", ds.Spec.Template.Annotations)
			}
		})
	}
}

func TestSnapshotTellsWhatRuns(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	nodes, sets, _ := w.cluster.Snapshot()
	if len(nodes) != 3 || nodes[0].Name != "node-000" || !nodes[0].Ready {
		t.Errorf("nodes: got %+v", nodes)
	}
	ds := w.daemonSet(sets)
	if !ds.RevisionObserved || ds.Revision == "" || !ds.OnDelete {
		t.Errorf("DaemonSet: got %+v", ds)
	}
}

// A revision that was read before our own apply is not the one in Git.
func TestRevisionIsNotTrustedBeforeTheWatchHasCaughtUp(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	w.pass(t, w.agent(t, "example.com/agent:2"))
	for {
		_, sets, _ := w.cluster.Snapshot()
		ds := w.daemonSet(sets)
		if ds.Generation == 2 {
			return // the watch had caught up before we looked
		}
		if ds.RevisionObserved {
			t.Fatal("the revision of generation 1 is trusted after generation 2 was applied")
		}
	}
}

// wantPods waits until the snapshot has so many pods of the agent, all Ready.
func (w *world) wantPods(t testing.TB, n int) []health.Pod {
	t.Helper()
	var pods []health.Pod
	testkit.Eventually(t, time.Minute, func(context.Context) error {
		_, sets, all := w.cluster.Snapshot()
		owner := w.daemonSet(sets).UID
		pods = pods[:0]
		for _, p := range all {
			if p.Owner == owner && p.Ready && !p.Deleting {
				pods = append(pods, *p)
			}
		}
		if len(pods) != n {
			return fmt.Errorf("%d pods are ready, want %d", len(pods), n)
		}
		return nil
	})
	return pods
}

func (w *world) daemonSet(sets []health.DaemonSet) health.DaemonSet {
	for _, ds := range sets {
		if ds.Name.Namespace == w.namespace {
			return ds
		}
	}
	return health.DaemonSet{}
}

// set changes one field; a path element that is a number is a list's index.
func set(t testing.TB, obj *unstructured.Unstructured, value string, path ...string) {
	t.Helper()
	var at any = obj.Object
	for i, field := range path {
		switch node := at.(type) {
		case map[string]any:
			if i == len(path)-1 {
				node[field] = value
				return
			}
			if node[field] == nil {
				node[field] = map[string]any{}
			}
			at = node[field]
		case []any:
			at = node[0]
		default:
			t.Fatalf("no field at %v", path[:i])
		}
	}
}
