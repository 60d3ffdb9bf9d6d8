// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
)

// crowdZones is over how many zones a crowd is spread.
const crowdZones = 3

// crowd adds nodes to the sandbox until the test ends, on which no other test's
// pods run. What it returns goes to the end of a DaemonSet: its pods then run on
// these nodes only. The first few are canaries.
func (w *world) crowd(t testing.TB, size, canaries int) string {
	t.Helper()
	var work errgroup.Group
	work.SetLimit(16)
	for i := range size {
		work.Go(func() error {
			_, err := w.Client.CoreV1().Nodes().Create(t.Context(), w.member(i, i < canaries), metav1.CreateOptions{})
			return err
		})
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := w.Client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "crowd=" + w.instance.Name})
		if err != nil {
			t.Errorf("delete nodes: %v", err)
		}
	})
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("      nodeSelector: {crowd: %s}\n      tolerations: [{key: crowd, operator: Exists}]\n", w.instance.Name)
}

func (w *world) member(i int, canary bool) *corev1.Node {
	name := fmt.Sprintf("%s-%03d", w.instance.Name, i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("16"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:     name,
			corev1.LabelOSStable:     "linux",
			corev1.LabelArchStable:   "amd64",
			corev1.LabelTopologyZone: "zone-" + string(rune('a'+i%crowdZones)),
			"crowd":                  w.instance.Name,
			"canary":                 fmt.Sprint(canary),
		}},
		Spec: corev1.NodeSpec{
			ProviderID: "sandbox://" + name,
			Taints:     []corev1.Taint{{Key: "crowd", Value: w.instance.Name, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// runsOn waits until so many nodes have a Ready pod of a version of each
// DaemonSet, and it has no other pods.
func (w *world) runsOn(t testing.TB, size int, version string, daemonSets ...string) {
	t.Helper()
	for _, name := range daemonSets {
		testkit.Eventually(t, patience, func(ctx context.Context) error { return w.running(ctx, size, version, name) })
	}
}

func (w *world) running(ctx context.Context, size int, version, daemonSet string) error {
	pods, err := w.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + daemonSet})
	if err != nil {
		return err
	}
	done := 0
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Annotations[versionKey] == version && isReady(p) {
			done++
		}
	}
	if done != size || len(pods.Items) != size {
		return fmt.Errorf("%s: of %d pods %d are of version %s and ready, not %d", daemonSet, len(pods.Items), done, version, size)
	}
	return nil
}
