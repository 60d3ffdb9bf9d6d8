// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lamplighter.dev/reconcile/rollout"
)

// The kubelet writes its node's status at any time, also between reading the node
// and cordoning it.
func TestNodeThatChangesMeanwhileIsCordonedAllTheSame(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	conflicts := 2
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", nil)
	})
	c := &Cluster{typed: client, opts: Options{RequestTimeout: time.Minute}}
	if err := c.cordon(t.Context(), rollout.Decision{Ruling: &rollout.Ruling{Policy: "cni"}, Node: "a"}); err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !node.Spec.Unschedulable {
		t.Error("the node takes new pods, and would be drained")
	}
}
