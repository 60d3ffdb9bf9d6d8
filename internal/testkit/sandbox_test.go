// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
)

const nodes = 4

func TestMain(m *testing.M) {
	os.Exit(testkit.Main(m, testkit.Options{Nodes: nodes, PodReadyAfter: 100 * time.Millisecond}))
}

func TestRecordTellsWhoWasDeletedAndWhoWasDown(t *testing.T) {
	cluster := testkit.Sandbox(t)
	namespace := cluster.Namespace(t)
	record := cluster.RecordPods(t, namespace, "app=agent")
	runDaemonSet(t, cluster, namespace)
	if got := record.WorstOutage(t, "agent"); len(got.Nodes) != 0 {
		t.Errorf("outage of the first start: got %v, want none", got.Nodes)
	}

	before := time.Now()
	mend := cluster.Break(t, "node-001", testkit.StuckTerminating) // until both are down
	victims := deletePods(t, cluster, namespace, "node-001", "node-003")
	record.Events(t)
	mend()
	testkit.Eventually(t, time.Minute, allReady(cluster, namespace))
	record.Events(t) // all so far is heard of before
	after := time.Now()
	deletePods(t, cluster, namespace, "node-000")

	deleted := record.Deletions(t, before, after)
	if got, want := names(deleted), strings.Join(victims, " "); got != want {
		t.Errorf("deletions: got %q, want %q", got, want)
	}
	if got := record.Deletions(t, before.Add(-time.Hour), before); len(got) != 0 {
		t.Errorf("deletions before the first: got %v, want none", got)
	}
	if got := record.DeletionsByNode(t)["node-000"]; len(got) != 1 {
		t.Errorf("deletions on node-000: got %v, want one", got)
	}
	if got, want := fmt.Sprint(record.WorstOutage(t, "agent").Nodes), "[node-001 node-003]"; got != want {
		t.Errorf("worst outage: got %s, want %s", got, want)
	}
}

func TestBrokenNodeIsMended(t *testing.T) {
	cluster := testkit.Sandbox(t)
	status := func(want corev1.ConditionStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := cluster.Client.CoreV1().Nodes().Get(ctx, "node-002", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == want {
					return nil
				}
			}
			return fmt.Errorf("node-002 is not Ready=%s", want)
		}
	}
	mend := cluster.Break(t, "node-002", testkit.NotReady)
	testkit.Eventually(t, time.Minute, status(corev1.ConditionFalse))
	mend()
	testkit.Eventually(t, time.Minute, status(corev1.ConditionTrue))
}

// runDaemonSet makes the DaemonSet agent and waits until it is Ready.
func runDaemonSet(t *testing.T, c *testkit.Cluster, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	_, err := c.Client.AppsV1().DaemonSets(namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent:v1"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, allReady(c, namespace))
}

func allReady(c *testkit.Cluster, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && isReady(p.Status.Conditions) {
				ready++
			}
		}
		if len(pods.Items) != nodes || ready != nodes {
			return fmt.Errorf("%d pods, %d ready, of %d", len(pods.Items), ready, nodes)
		}
		return nil
	}
}

func isReady(conditions []corev1.PodCondition) bool {
	return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// deletePods deletes the pods on the nodes and returns their names in order.
func deletePods(t *testing.T, c *testkit.Cluster, namespace string, nodes ...string) []string {
	t.Helper()
	var names []string
	for _, node := range nodes {
		pods, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil || len(pods.Items) != 1 {
			t.Fatalf("pods on %s: got %d (%v), want one", node, len(pods.Items), err)
		}
		name := pods.Items[0].Name
		if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func names(ds []testkit.Deletion) string {
	var b []string
	for _, d := range ds {
		b = append(b, d.Pod)
	}
	return strings.Join(b, " ")
}
