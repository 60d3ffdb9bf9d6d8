// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

func TestApplyCreatesUpdatesAndLeavesAlone(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.configMap(t, "a", "1"), w.configMap(t, "b", "1"))
	w.wantOutcomes(t, outcomes, "Created ConfigMap/a", "Created ConfigMap/b")

	_, outcomes = w.pass(t, w.configMap(t, "a", "1"), w.configMap(t, "b", "2"))
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Configured ConfigMap/b")
	if got := w.value(t, "b"); got != "2" {
		t.Errorf("b: got %q, want 2", got)
	}
}

func TestNothingChangedAsksNothing(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, manyKinds)
	_, outcomes := w.pass(t, objects...)
	for _, o := range outcomes {
		if o.Result != inventory.ResultCreated {
			t.Errorf("%s: got %s %v, want Created", inventory.Format(o.ID), o.Result, o.Err)
		}
	}
	w.watched(t, outcomes)
	for range 3 {
		seen := w.requests.during(func() { w.pass(t, objects...) })
		if len(seen) > 0 {
			t.Errorf("a pass with nothing to do asked: %v", seen)
		}
	}
}

func TestRestartFindsNothingToDo(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, manyKinds)
	w.pass(t, objects...)
	w.cluster = w.newCluster(t, cluster.Options{})

	plan, _ := w.pass(t, objects...)
	for _, d := range plan.Decisions() {
		if d.Action != inventory.Keep {
			t.Errorf("%s: got %s %s, want Keep", inventory.Format(d.ID), d.Action, d.Reason)
		}
	}
	if seen := w.requests.during(func() { w.pass(t, objects...) }); len(seen) > 0 {
		t.Errorf("the second pass after a restart asked: %v", seen)
	}
}

// value reads a ConfigMap's key.
func (w *world) value(t testing.TB, name string) string {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data["key"]
}

// edit changes a ConfigMap as somebody else.
func (w *world) edit(t testing.TB, name, manager, patch string) {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
}

// watched waits until the watches have told of what was applied: from then on a
// pass asks nothing.
func (w *world) watched(t testing.TB, outcomes []inventory.Outcome) {
	t.Helper()
	var ids []inventory.ID
	for _, o := range outcomes {
		ids = append(ids, o.ID)
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		var err error
		seen := w.requests.during(func() { _, err = w.cluster.Orphans(ctx, ids) })
		if err == nil && len(seen) > 0 {
			err = fmt.Errorf("still asks %s", strings.Join(seen, ", "))
		}
		return err
	})
}

const manyKinds = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {level: info}
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {token: s3cret}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: agent}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: v1
kind: Service
metadata: {name: agent}
spec:
  selector: {app: agent}
  ports: [{port: 80}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: agent}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: agent}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: agent}}
    spec:
      serviceAccountName: agent
      tolerations: [{operator: Exists}]
      containers:
      - name: agent
        image: example.com/agent:1
        resources: {requests: {cpu: 1000m, memory: 1024Mi}}
        envFrom: [{configMapRef: {name: config}}]
`

// An object may be larger than an annotation that repeats it could be.
func TestLargeObjectsAreAppliedAndChanged(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	for i, want := range []string{"Created ConfigMap/large", "Configured ConfigMap/large"} {
		large := w.configMap(t, "large", strings.Repeat(fmt.Sprint(i), 300_000))
		_, outcomes := w.pass(t, large)
		w.wantOutcomes(t, outcomes, want)
		w.wantQuiet(t, large)
	}
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "large", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Data["key"] != strings.Repeat("1", 300_000) || len(cm.Annotations) != 2 {
		t.Errorf("%d bytes, annotations %v; want 300,000 and ours", len(cm.Data["key"]), slices.Collect(maps.Keys(cm.Annotations)))
	}
	for _, e := range cm.ManagedFields {
		if e.Manager != inventory.FieldManager || e.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("fields are held by %s of %s", e.Operation, e.Manager)
		}
	}
}

// Nothing waits for the pods of a DaemonSet, not even what depends on it.
func TestDaemonSetThatIsNeverReadyHoldsUpNothing(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := append(w.objects(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: after, annotations: {config.kubernetes.io/depends-on: apps/namespaces/NS/DaemonSet/agent}}`), w.agent(t, "example.com/agent:never-ready"))
	_, outcomes := w.pass(t, objects...)
	w.wantOutcomes(t, outcomes, "Created DaemonSet/agent", "Created ConfigMap/after")
	ds, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ds.Status.NumberReady > 0 {
		t.Errorf("%d pods are ready: the image is of no use here", ds.Status.NumberReady)
	}
}
