// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// clientApply is what kubectl apply leaves behind: fields that an Update of its
// manager set, and its own record of them.
func (w *world) clientApply(t *testing.T, name, manager string) {
	t.Helper()
	obj := w.objects(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: `+name+`
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
data: {key: old, dropped: from Git}`)[0]
	_, err := w.Dynamic.Resource(configMaps).Namespace(w.namespace).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFieldsThatKubectlOwnedAndGitDropsGoAway(t *testing.T) {
	for _, manager := range []string{"kubectl-client-side-apply", "before-first-apply", "kubectl-create"} {
		t.Run(manager, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			w.clientApply(t, "a", manager)
			plan, outcomes := w.pass(t, w.configMap(t, "a", "new"))
			if d := plan.Decisions()[0]; d.Reason != inventory.Adopted {
				t.Errorf("got %s, want Adopted", d.Reason)
			}
			w.wantOutcomes(t, outcomes, "Configured ConfigMap/a")
			cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(cm.Data) != 1 || cm.Data["key"] != "new" {
				t.Errorf("data: got %v, want only key: new", cm.Data)
			}
			if _, ok := cm.Annotations["kubectl.kubernetes.io/last-applied-configuration"]; ok {
				t.Error("kubectl's own record is still there")
			}
		})
	}
}

// An API server that does not know a path yet, as one that has been told of a kind a
// moment ago, says nothing of the object: the fields become ours all the same.
func TestFieldsBecomeOursThoughTheirKindIsServedLate(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.clientApply(t, "a", "kubectl-client-side-apply")
	plan := w.plan(t, w.configMap(t, "a", "new"))
	late := 2
	w.requests.intercept(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || path.Base(r.URL.Path) != "a" || late == 0 {
			return nil, nil
		}
		late--
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}},
			Body: io.NopCloser(strings.NewReader("404 page not found")), Request: r,
		}, nil
	})
	w.wantOutcomes(t, w.cluster.Apply(t.Context(), plan.Steps, nil), "Configured ConfigMap/a")
	if late > 0 {
		t.Fatal("nobody was told that the path is not known")
	}
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cm.Data) != 1 || cm.Data["key"] != "new" {
		t.Errorf("data: got %v, want only key: new", cm.Data)
	}
}

func TestKubectlApplyLaterIsDrift(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"))
	w.edit(t, "a", "kubectl-client-side-apply", `{"data":{"key":"2","extra":"3"}}`)
	w.wantDrift(t, w.configMap(t, "a", "1"))
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cm.Data) != 1 || cm.Data["key"] != "1" {
		t.Errorf("data: got %v, want only key: 1", cm.Data)
	}
}

func TestFieldOfAnotherManagerIsAConflict(t *testing.T) {
	w := newWorld(t, cluster.Options{Partial: true})
	w.pass(t, w.configMap(t, "a", "1"))
	w.edit(t, "a", "other-operator", `{"data":{"key":"2"}}`)

	_, outcomes := w.pass(t, w.configMap(t, "a", "3"))
	w.wantOutcomes(t, outcomes, `Conflict ConfigMap/a: .data.key belongs to "other-operator"`)
	if got := w.value(t, "a"); got != "2" {
		t.Errorf("value: got %q, want 2", got)
	}

	w.cluster = w.newCluster(t, cluster.Options{ForceConflicts: true})
	_, outcomes = w.pass(t, w.configMap(t, "a", "3"))
	w.wantOutcomes(t, outcomes, "Configured ConfigMap/a")
	if got := w.value(t, "a"); got != "3" {
		t.Errorf("value after force: got %q, want 3", got)
	}
}

func TestConflictIsSeenByADryRun(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"))
	w.edit(t, "a", "other-operator", `{"data":{"key":"2"}}`)
	w.cluster = w.newCluster(t, cluster.Options{})
	plan := w.plan(t, w.configMap(t, "a", "1"))
	d := plan.Decisions()[0]
	if d.Action != inventory.Refuse || d.Reason != inventory.Conflict || !strings.Contains(d.Message, `.data.key belongs to "other-operator"`) {
		t.Errorf("got %s %s %q, want the conflict", d.Action, d.Reason, d.Message)
	}
}

func TestKubectlEditYields(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"))
	w.edit(t, "a", "kubectl-edit", `{"data":{"key":"2"}}`)
	w.wantDrift(t, w.configMap(t, "a", "1"))
	if got := w.value(t, "a"); got != "1" {
		t.Errorf("value: got %q, want 1", got)
	}
}

// A person may hold a DaemonSet, or note something, with kubectl annotate.
func TestAnnotationsOfPeopleStay(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"))
	w.edit(t, "a", "kubectl-annotate", `{"metadata":{"annotations":{"lamplighter.dev/hold":"on call"}}}`)
	w.pass(t, w.configMap(t, "a", "2"))
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := cm.Annotations["lamplighter.dev/hold"]; got != "on call" {
		t.Errorf("annotation: got %q, want it kept", got)
	}
}

func TestObjectsOfAnotherInventoryAreLeftAlone(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "a", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"config.k8s.io/owning-inventory":"somebody-else"}}}`),
		metav1.PatchOptions{FieldManager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	plan, outcomes := w.pass(t, w.configMap(t, "a", "1"))
	w.wantOutcomes(t, outcomes, "Refused ConfigMap/a: owned by inventory somebody-else")
	if plan.Next.Len() != 0 {
		t.Errorf("inventory: got %v, want it empty", plan.Next.IDs())
	}
}

// A tool that managed the object before us has applied some fields and updated
// others. Both become ours, so that what Git does not have goes, also when it
// writes again.
func TestFieldsOfAToolThatWeTakeOverFrom(t *testing.T) {
	const tool = "kustomize-controller"
	w := newWorld(t, cluster.Options{TakeOverFrom: []string{tool}})
	maps := w.Dynamic.Resource(configMaps).Namespace(w.namespace)
	applied := w.objects(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {tool/name: fleet}}
data: {key: old, dropped: from Git}`)[0]
	if _, err := maps.Apply(t.Context(), "a", applied, metav1.ApplyOptions{FieldManager: tool}); err != nil {
		t.Fatal(err)
	}
	w.edit(t, "a", tool, `{"data":{"updated":"too"}}`)
	w.edit(t, "a", "somebody-else", `{"data":{"theirs":"stays"}}`)

	_, outcomes := w.pass(t, w.configMap(t, "a", "new"))
	w.wantOutcomes(t, outcomes, "Configured ConfigMap/a")
	w.wantOurs(t, "a", tool, map[string]string{"key": "new", "theirs": "stays"})

	w.edit(t, "a", tool, `{"data":{"key":"old","more":"again"}}`)
	w.wantDrift(t, w.configMap(t, "a", "new"))
	w.wantOurs(t, "a", tool, map[string]string{"key": "new", "theirs": "stays"})
}

// wantOurs wants a ConfigMap of which a manager holds nothing any more.
func (w *world) wantOurs(t *testing.T, name, former string, data map[string]string) {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(data, cm.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if _, ok := cm.Labels["tool/name"]; ok {
		t.Error("the tool's label is still there")
	}
	for _, e := range cm.ManagedFields {
		if strings.HasPrefix(e.Manager, former) {
			t.Errorf("%s still holds %s", e.Manager, e.FieldsV1)
		}
	}
}
