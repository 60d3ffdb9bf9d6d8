// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// Two watches tell of a DaemonSet. When the one that Inspect looks at is behind
// the other, an edit of the template is not known for what it is yet.
func TestRevisionOfAnEditThatWasNotComparedIsNotTrusted(t *testing.T) {
	c := seen(t, 2)
	id := inventory.ID{GroupKind: daemonSetKind, Namespace: "agents", Name: "cni"}
	for generation, trusted := range map[int64]bool{1: false, 2: true, 3: false} {
		c.known[id] = known{uid: "ds", generation: generation}
		if got := c.daemonSets()[0].RevisionObserved; got != trusted {
			t.Errorf("generation 2 seen, %d compared: trusted %t, want %t", generation, got, trusted)
		}
	}
	delete(c.known, id)
	if !c.daemonSets()[0].RevisionObserved {
		t.Error("the revision of a DaemonSet that nobody compares is not trusted")
	}
}

func TestNoRevisionIsTrustedWhileAWatchIsRefused(t *testing.T) {
	c := seen(t, 2)
	forbidden := errors.New("nodes is forbidden")
	c.feeds.nodes.refused.Store(&forbidden)
	if c.daemonSets()[0].RevisionObserved {
		t.Error("a revision is trusted though nobody tells of nodes any more")
	}
}

// seen is a cluster whose watches have told of one DaemonSet, agents/cni.
func seen(t *testing.T, generation int64) *Cluster {
	t.Helper()
	c, err := New(&rest.Config{Host: "http://localhost"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "agents", Name: "cni", UID: "ds", Generation: generation}
	ds := &appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{ObservedGeneration: generation}}
	controls := true
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "agents", Name: "cni-1", Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: "1"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", UID: "ds", Controller: &controls}},
	}, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","spec":{"containers":null}}}}`)}}
	for _, err := range []error{
		c.feeds.daemonSets.informer.GetStore().Add(&record[*appsv1.DaemonSet]{meta: meta, value: ds}),
		c.feeds.revisions.informer.GetStore().Add(&record[health.Revision]{meta: revision.ObjectMeta, value: health.RevisionOf(revision)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}
