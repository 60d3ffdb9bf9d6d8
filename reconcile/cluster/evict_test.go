// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

func eviction(p health.Pod) rollout.Decision {
	return rollout.Decision{
		Ruling: &rollout.Ruling{Action: rollout.Evict}, Node: p.Node,
		Pod: &rollout.Eviction{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
	}
}

func TestPodIsEvictedOnce(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	pod := w.wantPods(t, 3)[0]
	if a := w.cluster.Evict(t.Context(), eviction(pod)); a.Result != rollout.Sent || a.Decision.Node != pod.Node {
		t.Errorf("got %+v, want it sent", a)
	}
	w.wantReplaced(t, pod)
	if a := w.cluster.Evict(t.Context(), eviction(pod)); a.Result != rollout.Gone {
		t.Errorf("the pod that is gone: got %+v", a)
	}
}

func TestPodThatChangedIsNotEvicted(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	pod := w.wantPods(t, 3)[0]
	patch := []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`)
	if _, err := w.Client.CoreV1().Pods(w.namespace).Patch(t.Context(), pod.Name.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	impostor := pod
	impostor.UID, impostor.ResourceVersion = "00000000-0000-0000-0000-000000000000", ""
	for name, p := range map[string]health.Pod{"stale": pod, "other UID": impostor} {
		a := w.cluster.Evict(t.Context(), eviction(p))
		if a.Result != rollout.Gone || a.Message == "" {
			t.Errorf("%s: got %+v, want it gone", name, a)
		}
	}
	if _, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), pod.Name.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the pod: %v", err)
	}
}

func TestDisruptionBudgetRefuses(t *testing.T) {
	for _, tc := range []struct{ spec, hint string }{
		{"minAvailable: 3", ""},
		{"maxUnavailable: 1", "It can never allow this"},
		{"minAvailable: 100%", "It can never allow this"},
	} {
		t.Run(tc.spec, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			objects := w.objects(t, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: strict}
spec:
  `+tc.spec+`
  selector: {matchLabels: {app: agent}}`)
			w.pass(t, append(objects, w.agent(t, "example.com/agent:1"))...)
			pod := w.wantPods(t, 3)[0]
			w.budgetObserved(t)
			a := w.cluster.Evict(t.Context(), eviction(pod))
			if a.Result != rollout.Refused || !strings.Contains(a.Message, "strict") && tc.hint == "" {
				t.Errorf("got %+v, want it refused by the budget strict", a)
			}
			if got := strings.Contains(a.Message, "It can never allow this"); got != (tc.hint != "") {
				t.Errorf("message: got %q, hint wanted: %t", a.Message, tc.hint != "")
			}
		})
	}
}

func TestNoEvictionAfterTheEnd(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	pod := w.wantPods(t, 3)[0]
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the window has shut"))
	seen := w.requests.during(func() {
		a := w.cluster.Evict(ctx, eviction(pod))
		if a.Result != rollout.Errored || !strings.Contains(a.Err.Error(), "the window has shut") {
			t.Errorf("got %+v, want it not sent", a)
		}
	})
	if len(writes(seen)) > 0 {
		t.Errorf("asked: %v", seen)
	}
}

// budgetObserved waits until the budget's controller has looked at it.
func (w *world) budgetObserved(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, "strict", metav1.GetOptions{})
		if err == nil && (b.Status.ObservedGeneration == 0 || len(b.Status.Conditions) == 0) {
			err = errors.New("the budget has not been observed")
		}
		return err
	})
}

func (w *world) wantReplaced(t *testing.T, old health.Pod) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		_, err := w.Client.CoreV1().Pods(w.namespace).Get(ctx, old.Name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod %s is still there: %v", old.Name, err)
	})
	w.wantPods(t, 3)
}
