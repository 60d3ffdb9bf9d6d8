// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/rollout"
)

// What takes room are the pods of the node, whoever made them, but not the one
// that is replaced.
func TestRoomOnANode(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	q := w.question(t, "node-001")
	q.Kind = rollout.Room
	wantRoom := func(reply rollout.Reply, words string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
			if got := w.cluster.Room(ctx, q); got.Reply != reply || !strings.Contains(got.Message, words) {
				return fmt.Errorf("got %+v, want %s with %q", got, reply, words)
			}
			return nil
		})
	}
	wantRoom(rollout.Yes, "")

	node, err := w.Client.CoreV1().Nodes().Get(t.Context(), q.Node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := node.Status.Allocatable[corev1.ResourceCPU]
	_, sets, _ := w.cluster.Snapshot()
	api := w.Client.AppsV1().DaemonSets(w.namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // its controller writes the status
		agent, err := api.Get(t.Context(), w.daemonSet(sets).Name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		agent.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: all}
		_, err = api.Update(t.Context(), agent, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func(context.Context) error {
		_, sets, _ := w.cluster.Snapshot()
		if d := w.daemonSet(sets); d.Revision == q.Revision || d.Revision == "" {
			return fmt.Errorf("the new revision is not seen")
		} else {
			q.Revision = d.Revision
		}
		return nil
	})
	wantRoom(rollout.Yes, "")

	_, err = w.Client.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "neighbour"},
		Spec: corev1.PodSpec{NodeName: q.Node, Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRoom(rollout.No, "cpu: ")
	q.Node = "node-none"
	wantRoom(rollout.Unknown, "not found")
}
