// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// One kind that may not be read holds its own objects and no others.
func TestKindThatMayNotBeReadHoldsNoOther(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.requests.intercept(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/secrets") {
			return answer(http.StatusForbidden, "Forbidden")(r)
		}
		return nil, nil
	})
	secret := w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}")[0]
	w.owned = inventory.NewSet(inventory.ID{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: w.namespace, Name: "orphan"})
	plan, outcomes := w.pass(t, secret, w.configMap(t, "a", "1"))
	w.wantOutcomes(t, outcomes, "Created ConfigMap/a", "Held Secret/a", "Held Secret/orphan")
	for _, d := range plan.Decisions() {
		if d.ID.GroupKind.Kind == "Secret" && (d.Reason != inventory.Unknown || !strings.Contains(d.Message, "watch secrets")) {
			t.Errorf("%s: got %s %q, want what cannot be watched", inventory.Format(d.ID), d.Reason, d.Message)
		}
	}
}

// While the server behind an APIService is down, its kinds cannot be found. That
// does not mean that their objects are gone.
func TestObjectsOfAGroupThatIsDownAreNotGone(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	group := w.namespace + ".example.com"
	service := w.objects(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.`+group+`}
spec:
  group: `+group+`
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: NS, name: nowhere}`)[0]
	service.SetNamespace("")
	services := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), service.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	id := inventory.ID{GroupKind: schema.GroupKind{Group: group, Kind: "Lamp"}, Namespace: w.namespace, Name: "a"}
	testkit.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		c := w.newCluster(t, cluster.Options{})
		orphans, err := c.Orphans(ctx, []inventory.ID{id})
		if err != nil {
			return err
		}
		if orphans[0].Gone || orphans[0].Err == nil {
			return errors.New("the object counts as gone")
		}
		return nil
	})
}

// What is refused is not asked for again by every pass.
func TestRefusedDryRunIsRemembered(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	_, outcomes := w.pass(t, w.agent(t, "example.com/agent:1"))
	w.watched(t, outcomes)
	bad := w.agent(t, "example.com/agent:2")
	set(t, bad, "never", "spec", "template", "spec", "restartPolicy")
	plan, _ := w.pass(t, bad)
	if d := plan.Decisions()[0]; d.Action != inventory.Refuse || d.Reason != inventory.Rejected {
		t.Errorf("got %s %s, want Refuse Rejected", d.Action, d.Reason)
	}
	if seen := w.requests.during(func() { w.pass(t, bad) }); len(seen) > 0 {
		t.Errorf("asked again: %v", seen)
	}
}

// Objects that wait to be created, or are another's, are not looked for again
// by every pass, and their coming and going is noticed.
func TestUnseenObjectsAreRemembered(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}")
	w.plan(t, objects...)
	if seen := w.requests.during(func() { w.plan(t, objects...) }); len(seen) > 0 {
		t.Errorf("asked again: %v", seen)
	}
	w.pass(t, objects[0])
	w.wantQuiet(t, objects[0])
	if c := w.change(t, objects[0]); c.Kind != inventory.None {
		t.Errorf("after its creation: got %s, want None", c.Kind)
	}
}
