// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// definition returns a CustomResourceDefinition whose group is the test's own.
func definition(w *world) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.` + w.group() + `}
spec:
  group: ` + w.group() + `
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp, listKind: LampList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
status: {storedVersions: [v1]}`
}

func (w *world) group() string { return w.namespace + ".example.com" }

func TestNamespaceDefinitionAndObjectInOnePass(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, `
apiVersion: `+w.group()+`/v1
kind: Lamp
metadata: {name: first, namespace: NS-inner}
spec: {lit: true}
---
apiVersion: v1
kind: Namespace
metadata: {name: NS-inner}
---`+definition(w))
	_, outcomes := w.pass(t, objects...)
	w.wantOutcomes(t, outcomes,
		"Created CustomResourceDefinition/lamps",
		"Created Namespace/"+w.namespace+"-inner",
		"Created Lamp."+w.group()+"/"+w.namespace+"-inner/first")
	w.wantQuiet(t, objects...)

	w.allow = true
	_, outcomes = w.pass(t)
	w.wantOutcomes(t, outcomes,
		"Pruned Lamp."+w.group()+"/"+w.namespace+"-inner/first",
		"Pruned CustomResourceDefinition/lamps",
		"Pruned Namespace/"+w.namespace+"-inner")
	if w.owned.Len() != 0 {
		t.Errorf("inventory: got %v, want it empty", w.owned.IDs())
	}
}

// An API server lists a kind a little later than it is established.
func TestObjectOfAKindThatIsListedLate(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, "apiVersion: "+w.group()+"/v1\nkind: Lamp\nmetadata: {name: first}\nspec: {lit: true}\n---"+definition(w))
	plan := w.plan(t, objects...)
	late := staleLists{next: w.direct(t), left: 3}
	w.requests.intercept(late.answer)
	w.wantOutcomes(t, w.cluster.Apply(t.Context(), plan.Steps, nil),
		"Created CustomResourceDefinition/lamps",
		"Created Lamp."+w.group()+"/first")
	if late.left > 0 {
		t.Errorf("%d old lists were not asked for", late.left)
	}
}

// staleLists answers the first questions for the API groups as if they had been
// asked a while ago.
type staleLists struct {
	next http.RoundTripper

	mu   sync.Mutex
	left int
}

func (s *staleLists) answer(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path != "/apis" || s.left == 0 {
		return nil, nil
	}
	s.left--
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var groups struct {
		Kind       string           `json:"kind"`
		APIVersion string           `json:"apiVersion"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.NewDecoder(response.Body).Decode(&groups); err != nil {
		return nil, err
	}
	groups.Items = slices.DeleteFunc(groups.Items, func(group map[string]any) bool {
		return strings.HasSuffix(fmt.Sprint(group["metadata"].(map[string]any)["name"]), ".example.com")
	})
	body, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

func TestObjectOfAnUnknownKind(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	plan := w.plan(t, w.objects(t, "apiVersion: nowhere.example.com/v1\nkind: Lamp\nmetadata: {name: a}")...)
	d := plan.Decisions()[0]
	if d.Action != inventory.Hold || !strings.Contains(d.Message, "its CustomResourceDefinition is missing") {
		t.Errorf("got %s %q, want what is missing", d.Action, d.Message)
	}
}

func TestDependentsOfAFailureAreSkipped(t *testing.T) {
	w := newWorld(t, cluster.Options{Partial: true})
	objects := w.objects(t, `
apiVersion: v1
kind: Service
metadata: {name: broken}
spec: {ports: []}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: dependent
  annotations: {config.kubernetes.io/depends-on: /namespaces/NS/Service/broken}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: independent}`)
	_, outcomes := w.pass(t, objects...)
	w.wantOutcomes(t, outcomes,
		"Created ConfigMap/independent",
		"Refused Service/broken: Service \"broken\" is invalid: spec.ports: Required value",
		"Skipped ConfigMap/dependent: Service/NS/broken comes first and was not done")
}

func TestMissingNamespace(t *testing.T) {
	w := newWorld(t, cluster.Options{Partial: true})
	_, outcomes := w.pass(t, w.objects(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}")...)
	w.wantOutcomes(t, outcomes, `Failed ConfigMap/nowhere/a: namespaces "nowhere" not found`)
}

func TestTerminatingNamespaceIsLeftAlone(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	inner := w.objects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-inner, finalizers: [example.com/stay]}")
	w.pass(t, inner...)
	if err := w.Client.CoreV1().Namespaces().Delete(t.Context(), inner[0].GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.dropFinalizers(t, inner[0].GetName()) })
	w.wantTerminating(t, inner[0])
}

// A definition that the API server does not accept is waited for, and its
// objects are skipped; the next pass asks again.
func TestDefinitionIsWaitedForWithABound(t *testing.T) {
	w := newWorld(t, cluster.Options{DefinitionTimeout: 300 * time.Millisecond})
	w.pass(t, w.objects(t, definition(w))...)
	taken := strings.NewReplacer("lamps.", "lanterns.", "plural: lamps", "plural: lanterns", "kind: Lamp,", "kind: Lantern,").Replace(definition(w))
	objects := append(w.objects(t, definition(w)), w.objects(t, taken+`
---
apiVersion: `+w.group()+`/v1
kind: Lantern
metadata: {name: first}`)...) // its singular and list kind are the first definition's
	_, outcomes := w.pass(t, objects...)
	w.wantOutcomes(t, outcomes,
		"Unchanged CustomResourceDefinition/lamps",
		"Failed CustomResourceDefinition/lanterns",
		"Skipped Lantern."+w.group()+"/first")
	if err := outcomes[1].Err; err == nil || !strings.Contains(err.Error(), "not usable after 300ms") {
		t.Errorf("definition: got %v, want the bound", err)
	}
}

// What waits for a definition holds up nothing that does not: a workload is applied
// meanwhile, though its step comes later. What may reject objects is not.
func TestOthersGoOnWhileADefinitionIsWaitedFor(t *testing.T) {
	w := newWorld(t, cluster.Options{DefinitionTimeout: time.Minute})
	w.pass(t, w.objects(t, definition(w))...)
	taken := strings.NewReplacer("lamps.", "lanterns.", "plural: lamps", "plural: lanterns", "kind: Lamp,", "kind: Lantern,").Replace(definition(w))
	objects := w.objects(t, taken+`
---
apiVersion: `+w.group()+`/v1
kind: Lantern
metadata: {name: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after, annotations: {config.kubernetes.io/depends-on: `+w.group()+`/namespaces/NS/Lantern/first}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: apart}
spec:
  replicas: 0
  selector: {matchLabels: {app: apart}}
  template:
    metadata: {labels: {app: apart}}
    spec: {containers: [{name: apart, image: apart}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NS}
webhooks: []`)
	plan := w.plan(t, objects...)
	ended := make(chan []inventory.Outcome)
	go func() { ended <- w.cluster.Apply(t.Context(), plan.Steps, nil) }()

	testkit.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		_, err := w.Client.AppsV1().Deployments(w.namespace).Get(ctx, "apart", metav1.GetOptions{})
		return err
	})
	_, err := w.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), w.namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the webhook is there before the objects that it might reject: %v", err)
	}
	definitions := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := definitions.Delete(t.Context(), "lamps."+w.group(), metav1.DeleteOptions{}); err != nil { // whose names were in the way
		t.Fatal(err)
	}
	w.wantOutcomes(t, <-ended,
		"Created CustomResourceDefinition/lanterns",
		"Created Deployment/apart",
		"Created Lantern."+w.group()+"/first",
		"Created ConfigMap/after",
		"Created ValidatingWebhookConfiguration/"+w.namespace)
}

func TestSecretValuesStayOutOfErrors(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	for _, secret := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {key: 90210}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {key: 90210==}",
		"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: a}\nstringData: {.dockerconfigjson: \"90210\"}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {bad key 90210: \"\"}",
	} {
		_, outcomes := w.pass(t, w.objects(t, secret)...)
		err := outcomes[0].Err
		if err == nil || outcomes[0].Result != inventory.ResultRefused {
			t.Errorf("%q: got %s %v, want Refused", secret, outcomes[0].Result, err)
		} else if strings.Contains(err.Error(), "90210") {
			t.Errorf("%q: the error holds the value: %v", secret, err)
		}
	}
}
