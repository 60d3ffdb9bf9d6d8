// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"lamplighter.dev/inventory"
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
		"Service with a port and a name that no other can have": {schema.GroupVersionResource{Version: "v1", Resource: "services"}, `
apiVersion: v1
kind: Service
metadata: {name: a-name-that-is-as-long-as-the-name-of-a-service-may-be-63-bytes, labels: {gone: "yes"}}
spec:
  type: NodePort
  clusterIP: 10.0.0.77
  selector: {app: old}
  ports: [{name: web, port: 80, nodePort: 31377}]`, `
apiVersion: v1
kind: Service
metadata: {name: a-name-that-is-as-long-as-the-name-of-a-service-may-be-63-bytes}
spec:
  type: NodePort
  clusterIP: 10.0.0.77
  selector: {app: new}
  ports: [{name: web, port: 80, nodePort: 31377}]`},
		"CustomResourceDefinition": {schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.NS.example.com, labels: {gone: "yes"}}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp, shortNames: [la, gone]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: gone, type: string, jsonPath: .spec.gone}]`, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`},
		"DaemonSet": {daemonSets, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a, labels: {gone: "yes"}}
spec:
  selector: {matchLabels: {app: a}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 3}}
  template:
    metadata: {labels: {app: a}, annotations: {gone: "yes"}}
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: main, image: old, ports: [{containerPort: 80}]}, {name: gone, image: old}]`, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a}
spec:
  selector: {matchLabels: {app: a}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: main, image: new}]}`},
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			git, kubectls := w.objects(t, tc.git)[0], w.objects(t, tc.live)[0]
			var api dynamic.ResourceInterface = w.Dynamic.Resource(tc.resource)
			if namespace := git.GetNamespace(); namespace != "" {
				api = w.Dynamic.Resource(tc.resource).Namespace(namespace)
			}
			if _, err := api.Create(t.Context(), kubectls, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
				t.Fatal(err)
			}
			theirs := []byte(`{"metadata":{"labels":{"theirs":"stays"}}}`)
			if _, err := api.Patch(t.Context(), git.GetName(), types.MergePatchType, theirs, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
				t.Fatal(err)
			}
			changes, err := w.cluster.InspectFully(t.Context(), []*unstructured.Unstructured{git})
			if err != nil {
				t.Fatal(err)
			}
			foretold := changes[0]
			w.pass(t, git)
			live, err := api.Get(t.Context(), git.GetName(), metav1.GetOptions{})
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

// lasting is what of an object stays as it is while nobody but its controller changes
// it.
func lasting(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	delete(obj.Object, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	return obj.Object
}

// What only kubectl rollout restart has set stays when a DaemonSet is adopted, so its
// template is as it was, and waits for no window.
func TestAdoptionAfterARestartWaitsForNoWindow(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	theirs := w.agent(t, "example.com/agent:1")
	api := w.Dynamic.Resource(daemonSets).Namespace(w.namespace)
	if _, err := api.Create(t.Context(), theirs, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		t.Fatal(err)
	}
	restart := []byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-03-02T22:00:00Z"}}}}}`)
	if _, err := api.Patch(t.Context(), "agent", types.StrategicMergePatchType, restart, metav1.PatchOptions{FieldManager: "kubectl-rollout"}); err != nil {
		t.Fatal(err)
	}
	git := w.agent(t, "example.com/agent:1")
	if c := w.change(t, git); c.Err != nil || c.Kind != inventory.Update || c.TemplateChanged {
		t.Errorf("got %s, template changed %t, %v; want Update with the template as it is", c.Kind, c.TemplateChanged, c.Err)
	}
	w.pass(t, git)
	live, err := api.Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	annotations, _, err := unstructured.NestedStringMap(live.Object, "spec", "template", "metadata", "annotations")
	if err != nil || annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("annotations of the template: %v, %v", annotations, err)
	}
}
