// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/reconcile/cluster"
)

// What an adoption is said to change is what it changes: what kubectl had set and
// Git does not have goes, what the API server fills in anew stays, and so does what
// others hold.
func TestWhatAnAdoptionChangesIsKnownBefore(t *testing.T) {
	for kind, tc := range map[string]struct {
		resource  schema.GroupVersionResource
		live, git string
	}{
		"Service": {schema.GroupVersionResource{Version: "v1", Resource: "services"}, `
apiVersion: v1
kind: Service
metadata: {name: a, labels: {gone: "yes"}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
spec:
  sessionAffinity: ClientIP
  selector: {app: old, tier: gone}
  ports: [{name: web, port: 80}, {name: gone, port: 81}]`, `
apiVersion: v1
kind: Service
metadata: {name: a}
spec:
  selector: {app: new}
  ports: [{name: web, port: 80}]`},
		"Deployment": {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2
  selector: {matchLabels: {app: a}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  template:
    metadata: {labels: {app: a}, annotations: {gone: "yes"}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - {name: main, image: old, env: [{name: KEPT, value: "1"}, {name: GONE, value: "1"}]}
      - {name: gone, image: old}`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers:
      - {name: main, image: new, env: [{name: KEPT, value: "1"}]}`},
		"Deployment that others scale": {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2
  revisionHistoryLimit: 3
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: main, image: old}]}`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {lamplighter.dev/ignore: "/spec/replicas"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: main, image: new}]}`},
		"Role": {schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: a, labels: {gone: "yes"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [secrets], verbs: [get]}]`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: a}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`},
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			api := w.Dynamic.Resource(tc.resource).Namespace(w.namespace)
			if _, err := api.Create(t.Context(), w.objects(t, tc.live)[0], metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
				t.Fatal(err)
			}
			theirs := []byte(`{"metadata":{"labels":{"theirs":"stays"}}}`)
			if _, err := api.Patch(t.Context(), "a", "application/merge-patch+json", theirs, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
				t.Fatal(err)
			}
			git := w.objects(t, tc.git)[0]
			changes, err := w.cluster.InspectFully(t.Context(), []*unstructured.Unstructured{git})
			if err != nil {
				t.Fatal(err)
			}
			foretold := changes[0]
			w.pass(t, git)
			live, err := api.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if foretold.Merged == nil {
				t.Fatal("nothing was foretold")
			}
			if diff := cmp.Diff(lasting(live), lasting(foretold.Merged)); diff != "" {
				t.Errorf("foretold (-live +foretold):\n%s", diff)
			}
			if live.GetLabels()["theirs"] != "stays" || live.GetLabels()["gone"] != "" {
				t.Errorf("labels: %v", live.GetLabels())
			}
		})
	}
}

// lasting is what of an object stays as it is while nobody changes it.
func lasting(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	delete(obj.Object, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	return obj.Object
}
