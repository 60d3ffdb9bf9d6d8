// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// TestWhatBecomesOfADroppedObject is about a ConfigMap x that Git has dropped,
// beside two that stay. Somebody meddles before the plan is made, or between the
// plan and its execution; what counts is what there is in the end.
func TestWhatBecomesOfADroppedObject(t *testing.T) {
	const other = `{"metadata":{"annotations":{"config.k8s.io/owning-inventory":"team.other"}}}`
	anew := func(t *testing.T, w *world) { w.makeAnew(t, "x") }
	edited := func(patch string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { w.edit(t, "x", "somebody", patch) }
	}
	for name, c := range map[string]struct {
		before, between func(*testing.T, *world)
		outcome         string // of x
		live            string // gone, ours, free, unowned, or whose
		owned           bool
	}{
		"nobody meddles":                               {nil, nil, "Pruned ConfigMap/x", "gone", false},
		"it is to be detached":                         {edited(`{"metadata":{"annotations":{"client.lifecycle.config.k8s.io/deletion":"detach"}}}`), nil, "Released ConfigMap/x", "free", false},
		"it is to be kept":                             {edited(`{"metadata":{"annotations":{"cli-utils.sigs.k8s.io/on-remove":"keep"}}}`), nil, "Released ConfigMap/x", "free", false},
		"it is to be kept, at the last moment":         {nil, edited(`{"metadata":{"annotations":{"cli-utils.sigs.k8s.io/on-remove":"keep"}}}`), "Released ConfigMap/x", "free", false},
		"another value of the annotation says nothing": {edited(`{"metadata":{"annotations":{"cli-utils.sigs.k8s.io/on-remove":"delete"}}}`), nil, "Pruned ConfigMap/x", "gone", false},
		"another inventory has taken it":               {edited(other), nil, "Released ConfigMap/x", "team.other", false},
		"another inventory takes it":                   {nil, edited(other), "Released ConfigMap/x", "team.other", false},
		"somebody has taken our mark off":              {edited(`{"metadata":{"annotations":{"config.k8s.io/owning-inventory":null}}}`), nil, "Released ConfigMap/x", "unowned", false},
		"somebody takes our mark off":                  {nil, edited(`{"metadata":{"annotations":{"config.k8s.io/owning-inventory":null}}}`), "Released ConfigMap/x", "unowned", false},
		"somebody has deleted it":                      {func(t *testing.T, w *world) { w.remove(t, "x") }, nil, "Released ConfigMap/x", "gone", false},
		"somebody deletes it":                          {nil, func(t *testing.T, w *world) { w.remove(t, "x") }, "Pruned ConfigMap/x", "gone", false},
		"somebody makes another one in its place":      {nil, anew, "Failed ConfigMap/x: it was created anew", "ours", true},
		"somebody changes its content":                 {nil, edited(`{"data":{"key":"2"}}`), "Pruned ConfigMap/x", "gone", false},
		"a finalizer holds it":                         {edited(`{"metadata":{"finalizers":["example.com/b","example.com/a"]}}`), nil, "Deleting ConfigMap/x: waits for finalizer example.com/a, example.com/b", "ours", true},
		"admission refuses its deletion":               {nil, func(_ *testing.T, w *world) { w.requests.intercept(refuseDeletions) }, "Refused ConfigMap/x: ", "ours", true},
		"the answer to the deletion is lost":           {nil, func(t *testing.T, w *world) { w.requests.intercept(w.loseDeletions(t)) }, "Pruned ConfigMap/x", "gone", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{DeletionTimeout: 500 * time.Millisecond})
			a, b, x := w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.configMap(t, "x", "1")
			_, outcomes := w.pass(t, a, b, x)
			w.watched(t, outcomes)
			if c.before != nil {
				c.before(t, w)
				w.cluster = w.newCluster(t, cluster.Options{DeletionTimeout: 500 * time.Millisecond}) // one that has seen it
			}
			plan := w.plan(t, a, b)
			if c.between != nil {
				c.between(t, w)
			}
			outcomes = w.cluster.Prune(t.Context(), plan.Prunes, nil)
			w.requests.intercept(nil)
			w.wantOutcomes(t, outcomes, c.outcome)
			if live := w.whose(t, "x"); live != c.live {
				t.Errorf("x is %s, want %s", live, c.live)
			}
			if owned := plan.Next.Settle(outcomes).Contains(inventory.IDOf(x)); owned != c.owned {
				t.Errorf("in the inventory: %t, want %t", owned, c.owned)
			}
			for _, stays := range []string{"a", "b"} {
				if live := w.whose(t, stays); live != "ours" {
					t.Errorf("%s is %s, want ours", stays, live)
				}
			}
			w.free(t, "x")
		})
	}
}

// whose says whose a ConfigMap is: gone, free of all marks, unowned but for other
// marks, ours, or the name of the inventory that owns it.
func (w *world) whose(t *testing.T, name string) string {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	_, labelled := cm.Labels[inventory.InstanceLabel]
	_, digested := cm.Annotations[inventory.AppliedAnnotation]
	switch owner := cm.Annotations[inventory.OwnerAnnotation]; {
	case owner == "" && (labelled || digested):
		return "unowned"
	case owner == "":
		return "free"
	case owner == w.instance.ID():
		return "ours"
	default:
		return owner
	}
}

func (w *world) remove(t *testing.T, name string) {
	t.Helper()
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// makeAnew replaces a ConfigMap by one that only has another UID.
func (w *world) makeAnew(t *testing.T, name string) {
	t.Helper()
	configs := w.Client.CoreV1().ConfigMaps(w.namespace)
	old, err := configs.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.remove(t, name)
	old.ResourceVersion, old.UID = "", ""
	if _, err := configs.Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// free lets the namespace go away.
func (w *world) free(t *testing.T, name string) {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// refuseDeletions is an admission policy against deletions.
func refuseDeletions(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodDelete {
		return nil, nil
	}
	return answer(http.StatusForbidden, "Forbidden")(r)
}

// loseDeletions carries out the first deletion and answers nothing.
func (w *world) loseDeletions(t *testing.T) func(*http.Request) (*http.Response, error) {
	lost := false
	direct := w.direct(t)
	return func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodDelete || lost {
			return nil, nil
		}
		lost = true
		response, err := direct.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("connection reset by peer%.0s", response.Body.Close())
	}
}

// One commit takes an object from one instance to another. Whoever comes first,
// it never is without an owner who knows of it, and an object that is detached
// first stays the same.
func TestObjectMovesFromOneInstanceToAnother(t *testing.T) {
	for name, c := range map[string]struct {
		detached, receiverFirst, same bool
	}{
		"the giver comes first":                  {},
		"the receiver comes first":               {receiverFirst: true},
		"detached, and the giver comes first":    {detached: true, same: true},
		"detached, and the receiver comes first": {detached: true, receiverFirst: true, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			giver := newWorld(t, cluster.Options{})
			receiver := &world{Cluster: giver.Cluster, namespace: giver.namespace, requests: &requests{}}
			receiver.instance = inventory.Instance{Namespace: giver.namespace, Name: "receiver"}
			receiver.cluster = receiver.newCluster(t, cluster.Options{})
			a, b, x := giver.configMap(t, "a", "1"), giver.configMap(t, "b", "1"), giver.configMap(t, "x", "1")
			z := giver.configMap(t, "z", "1")
			if c.detached {
				x.SetAnnotations(map[string]string{inventory.DeletionAnnotation: "detach"})
			}
			giver.pass(t, a, b, x)
			receiver.pass(t, z)
			uid := giver.uid(t, "x")

			moved := x.DeepCopy()
			moved.SetAnnotations(nil)
			passes := []func(){func() { giver.pass(t, a, b) }, func() { receiver.pass(t, z, moved) }}
			if c.receiverFirst {
				passes[0], passes[1] = passes[1], passes[0]
			}
			testkit.Eventually(t, 20*time.Second, func(context.Context) error {
				for _, pass := range passes {
					pass()
				}
				if owner := receiver.whose(t, "x"); owner != "ours" {
					return fmt.Errorf("x is %s", owner)
				}
				return nil
			})
			if same := giver.uid(t, "x") == uid; same != c.same {
				t.Errorf("the same object: %t, want %t", same, c.same)
			}
			id := inventory.IDOf(x)
			if giver.owned.Contains(id) || !receiver.owned.Contains(id) {
				t.Errorf("owned by the giver: %t, by the receiver: %t", giver.owned.Contains(id), receiver.owned.Contains(id))
			}
			for range 2 { // and there it stays
				giver.pass(t, a, b)
				receiver.pass(t, z, moved)
			}
			if owner := receiver.whose(t, "x"); owner != "ours" {
				t.Errorf("later x is %s", owner)
			}
		})
	}
}

func (w *world) uid(t *testing.T, name string) types.UID {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.UID
}

// The API server serves an Event in two groups. Git moves it from one to the
// other, and it stays the same.
func TestObjectOfTwoGroupsIsNotPrunedByItsOldName(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a := w.configMap(t, "a", "1")
	was := w.objects(t, `
apiVersion: v1
kind: Event
metadata: {name: x}
involvedObject: {apiVersion: v1, kind: ConfigMap, namespace: NS, name: a}
reason: Tested
type: Normal
action: Test
reportingComponent: example.com/test
reportingInstance: test-1
eventTime: "2026-01-01T00:00:00.000000Z"
message: as Git has it`)[0]
	is := w.objects(t, `
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: x}
regarding: {apiVersion: v1, kind: ConfigMap, namespace: NS, name: a}
reason: Tested
type: Normal
action: Test
reportingController: example.com/test
reportingInstance: test-1
eventTime: "2026-01-01T00:00:00.000000Z"
note: as Git has it`)[0]
	_, outcomes := w.pass(t, a, was)
	w.wantOutcomes(t, outcomes, "Created ConfigMap/a", "Created Event./x")
	before := w.event(t)

	plan, _ := w.pass(t, a, is)
	for _, d := range plan.Decisions() {
		if d.ID == inventory.IDOf(was) && (d.Action != inventory.Release || d.Reason != inventory.Moved) {
			t.Errorf("by its old name: %s %s %s", d.Action, d.Reason, d.Message)
		}
	}
	if now := w.event(t); now.UID != before.UID || now.DeletionTimestamp != nil || now.Annotations[inventory.OwnerAnnotation] != w.instance.ID() {
		t.Errorf("got %+v, want it to be the same, and ours", now.ObjectMeta)
	}
	if want := inventory.NewSet(inventory.IDOf(a), inventory.IDOf(is)); !w.owned.Equal(want) {
		t.Errorf("inventory: got %v, want %v", w.owned.IDs(), want.IDs())
	}
	w.pass(t, a)
	if _, err := w.Client.EventsV1().Events(w.namespace).Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("dropped by its new name: %v, want it gone", err)
	}
}

func (w *world) event(t *testing.T) *eventsv1.Event {
	t.Helper()
	e, err := w.Client.EventsV1().Events(w.namespace).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A render that is not meant deletes nothing, and one that is does.
func TestGuardsLeaveWhatTheyHold(t *testing.T) {
	for name, c := range map[string]struct {
		rendered string // names
		allow    bool
		left     string
	}{
		"an empty render":                    {"", false, "abcd"},
		"an empty render that is meant":      {"", true, ""},
		"more than half":                     {"a", false, "abcd"},
		"more than half, and it is meant":    {"a", true, "a"},
		"half":                               {"ab", false, "ab"},
		"another name for all, as by prefix": {"wxuz", false, "abcduwxz"},
		"another name for all, and meant so": {"wxuz", true, "uwxz"},
		"one more, and one less":             {"abce", false, "abce"},
		"an instance that has another name":  {"abcd", false, "abcd"},
		"nothing is dropped":                 {"abcd", true, "abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			of := func(names string) (out []*unstructured.Unstructured) {
				for _, n := range strings.Split(names, "") {
					out = append(out, w.configMap(t, n, "1"))
				}
				return out
			}
			w.pass(t, of("abcd")...)
			if strings.Contains(name, "has another name") {
				w.instance.Name, w.owned = "renamed", inventory.Set{}
				w.cluster = w.newCluster(t, cluster.Options{})
			}
			w.allow = c.allow
			for range 2 {
				w.pass(t, of(c.rendered)...)
			}
			list, err := w.Client.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			left := ""
			for _, cm := range list.Items {
				if len(cm.Name) == 1 {
					left += cm.Name
				}
			}
			if left != c.left {
				t.Errorf("left %q, want %q", left, c.left)
			}
		})
	}
}
