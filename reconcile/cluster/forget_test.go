// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// What has left Git and the inventory takes no memory, however it left: an object
// that was never taken, one that was let go, one that was deleted.
func TestWhatHasLeftIsForgotten(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.allow = true
	objects := w.objects(t, `
apiVersion: v1
kind: Service
metadata: {name: refused}
spec: {ports: []}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: detached, annotations: {client.lifecycle.config.k8s.io/deletion: detach}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: deleted}`)
	w.pass(t, objects...)
	if n := w.cluster.Remembered(); n < len(objects) {
		t.Fatalf("%d objects are remembered, want %d", n, len(objects))
	}
	_, outcomes := w.pass(t)
	w.wantOutcomes(t, outcomes, "Pruned ConfigMap/deleted", "Released ConfigMap/detached")
	w.plan(t)
	if n := w.cluster.Remembered(); n != 0 || w.owned.Len() > 0 {
		t.Errorf("%d objects are remembered, and %v are owned; want none", n, w.owned.IDs())
	}
	if plan := w.plan(t, objects[2]); plan.Decisions()[0].Action != inventory.Apply {
		t.Errorf("got %s, want what comes back to be applied", plan.Decisions()[0].Action)
	}
}
