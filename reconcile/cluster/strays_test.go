// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// strays are what a process finds of which nothing but a ConfigMap a is rendered.
func (w *world) strays(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	w.cluster = c
	w.plan(t, w.configMap(t, "a", "1"))
	found, err := c.Strays(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range found {
		names = append(names, strings.ReplaceAll(inventory.Format(l.ID), w.namespace+"/", ""))
	}
	return strings.Join(names, " ")
}

// Marks are the label and the annotation together, on what nobody made for another
// object. Kinds that are not watched are swept, and what is gone is not told of.
func TestWhatCarriesOurMarksIsFound(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"), w.configMap(t, "b", "1"), w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: token}")[0])
	a, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	both, label, annotation := a.Labels, map[string]string{inventory.InstanceLabel: w.instance.Name}, a.Annotations
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: a.UID}}
	for name, m := range map[string]metav1.ObjectMeta{
		"copy":            {Labels: both, Annotations: annotation},
		"label-alone":     {Labels: label},
		"mark-alone":      {Annotations: annotation},
		"of-another":      {Labels: label, Annotations: map[string]string{inventory.OwnerAnnotation: "team.other"}},
		"made-by-another": {Labels: both, Annotations: annotation, OwnerReferences: owner},
	} {
		cm := a.DeepCopy()
		cm.ObjectMeta = m
		cm.Name = name
		if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.owned = inventory.Set{} // it is lost

	c := w.newCluster(t, cluster.Options{})
	if got, want := w.strays(t, c), "ConfigMap/b ConfigMap/copy"; got != want {
		t.Errorf("of watched kinds: got %q, want %q", got, want)
	}
	c.Sweep(t.Context())
	if got, want := w.strays(t, c), "ConfigMap/b ConfigMap/copy Secret/token"; got != want {
		t.Errorf("of all kinds: got %q, want %q", got, want)
	}
	again := ""
	asked := w.requests.during(func() { again = w.strays(t, c) })
	if !strings.HasSuffix(again, "Secret/token") || len(asked) > 0 {
		t.Errorf("got %q by %v, want the same and no question", again, asked)
	}

	if err := w.Client.CoreV1().Secrets(w.namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, inventory.OwnerAnnotation)
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "copy", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := w.strays(t, w.newCluster(t, cluster.Options{})), "ConfigMap/b"; got != want {
		t.Errorf("afterwards: got %q, want %q", got, want)
	}
}

// What a watch has not yet heard of is looked at before it is told of.
func TestWhatWasPrunedAMomentAgoIsNoStray(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	a, b := w.configMap(t, "a", "1"), w.configMap(t, "b", "1")
	_, outcomes := w.pass(t, a, b)
	w.watched(t, outcomes)
	w.allow = true
	_, outcomes = w.pass(t, a)
	w.wantOutcomes(t, outcomes, "Unchanged ConfigMap/a", "Pruned ConfigMap/b")
	if got := w.strays(t, w.cluster); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// Kinds that we may not list are none of ours; one that cannot be listed is told of,
// and the others are looked through all the same.
func TestSweepLooksWhereItMay(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"), w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: token}")[0])
	w.owned = inventory.Set{}
	var log bytes.Buffer
	c := w.newCluster(t, cluster.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), RequestTimeout: 2 * time.Second})
	w.requests.intercept(func(r *http.Request) (*http.Response, error) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/services"):
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden), nil
		case strings.HasSuffix(r.URL.Path, "/leases"):
			return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
		}
		return nil, nil
	})
	c.Sweep(t.Context())
	w.requests.intercept(nil)
	if got, want := w.strays(t, c), "Secret/token"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if said := log.String(); !strings.Contains(said, "list leases") || strings.Contains(said, "services") {
		t.Errorf("the log says %q, want leases and nothing else", said)
	}
}

// What may be watched and not read is told of as the watch has it: it is deleted by
// nobody, and no reason to hold up a pass.
func TestStrayThatCannotBeReadIsToldOf(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"), w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: token}")[0])
	w.owned = inventory.Set{}
	c := w.newCluster(t, cluster.Options{})
	c.Sweep(t.Context())
	w.requests.intercept(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/secrets/token") {
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden), nil
		}
		return nil, nil
	})
	if got, want := w.strays(t, c), "Secret/token"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.requests.intercept(nil)
	if err := w.Client.CoreV1().Secrets(w.namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.strays(t, c); got != "" {
		t.Errorf("once it can be read and is gone: got %q, want none", got)
	}
}

// A kind that has strays and cannot be watched has none that could be told of, and
// that is said.
func TestStraysThatCannotBeWatchedAreSaidToBe(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "a", "1"), w.objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: token}")[0])
	w.owned = inventory.Set{}
	var log bytes.Buffer
	c := w.newCluster(t, cluster.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), RequestTimeout: 2 * time.Second})
	c.Sweep(t.Context())
	w.requests.intercept(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/secrets") {
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden), nil
		}
		return nil, nil
	})
	got := w.strays(t, c)
	w.requests.intercept(nil)
	if said := log.String(); got != "" || !strings.Contains(said, "may have objects of ours") {
		t.Errorf("got %q and the log %q, want none, and a word about it", got, said)
	}
}

func refusal(code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}
