// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/rollout"
)

func TestPodThatNoVisitMadeIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "v"+version),
			"rules.yaml": rules{windows: "night", fields: "  templates: Immediately\n", more: far().window("night")}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	w.inForce(t, w.commit(t, "version 2", files("2")))
	testkit.Eventually(t, patience, func(context.Context) error {
		if got := w.daemonSetNow(t, "agent"); got.Spec.Template.Annotations[versionKey] != "2" || got.Status.ObservedGeneration != got.Generation {
			return fmt.Errorf("the new template is not live yet")
		}
		return nil
	})
	pods, err := w.Client.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=agent"})
	if err != nil {
		t.Fatal(err)
	}
	pod := pods.Items[0]
	if err := w.Client.CoreV1().Pods(w.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		leaks := s.DaemonSets[0].Leaks
		if len(leaks) != 1 || leaks[0].Node != pod.Spec.NodeName || leaks[0].Cause != string(rollout.PodDeleted) {
			return fmt.Errorf("status tells of %+v, want the pod on %s", leaks, pod.Spec.NodeName)
		}
		return nil
	})
	w.events(t, "Leaked")
}
