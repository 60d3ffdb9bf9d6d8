// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

func TestInspectFullyShowsBothSides(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "same", "1"), w.configMap(t, "changed", "1"))
	objects := append(w.objects(t, `
apiVersion: v1
kind: Service
metadata: {name: new}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: invalid}
spec: {ports: []}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: homeless, namespace: NS-nowhere}
---
apiVersion: v1
kind: Namespace
metadata: {name: NS-yet-to-come}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: member, namespace: NS-yet-to-come}`), w.configMap(t, "same", "1"), w.configMap(t, "changed", "2"))

	var changes []inventory.Change
	seen := w.requests.during(func() {
		var err error
		if changes, err = w.cluster.InspectFully(t.Context(), objects); err != nil {
			t.Fatal(err)
		}
	})
	for _, line := range writes(seen) {
		if line[:len("PATCH dry-run")] != "PATCH dry-run" {
			t.Errorf("it changed something: %s", line)
		}
	}
	byName := map[string]inventory.Change{}
	for _, c := range changes {
		byName[c.ID.Name] = c
	}
	if c := byName["new"]; c.Kind != inventory.Create || c.Err != nil || field(t, c.Merged, "spec", "type") != "ClusterIP" {
		t.Errorf("new: got %s %v, want Create with the API server's defaults", c.Kind, c.Err)
	}
	if _, ok := errors.AsType[*inventory.RejectedError](byName["invalid"].Err); !ok {
		t.Errorf("invalid: got error %v, want it rejected", byName["invalid"].Err)
	}
	if c := byName["homeless"]; c.Kind != inventory.Create || c.Err == nil || !strings.Contains(c.Err.Error(), "not found") {
		t.Errorf("homeless: got %s %v, want that its namespace is missing", c.Kind, c.Err)
	}
	if c := byName["member"]; c.Kind != inventory.Create || c.Err != nil {
		t.Errorf("member of a new namespace: got %s %v, want Create", c.Kind, c.Err)
	}
	if c := byName["same"]; c.Kind != inventory.None {
		t.Errorf("same: got %s, want None", c.Kind)
	}
	if c := byName["changed"]; c.Kind != inventory.Update || field(t, c.Live, "data", "key") != "1" || field(t, c.Merged, "data", "key") != "2" {
		t.Errorf("changed: got %s, want Update from 1 to 2", c.Kind)
	}
}

func field(t *testing.T, obj *unstructured.Unstructured, path ...string) string {
	t.Helper()
	if obj == nil {
		return ""
	}
	value, _, err := unstructured.NestedString(obj.Object, path...)
	if err != nil {
		t.Error(err)
	}
	return value
}
