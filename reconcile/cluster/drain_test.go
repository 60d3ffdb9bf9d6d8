// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// draining is a decision to drain a node of pods of the test's own.
func (w *world) draining(node string) rollout.Decision {
	return rollout.Decision{Node: node, Ruling: &rollout.Ruling{
		Policy: "cni", Action: rollout.Drain,
		Drain: &policy.Drain{Timeout: time.Minute, PodSelector: "test=" + w.namespace, Force: true},
	}}
}

// addNode adds a node that no other test knows.
func (w *world) addNode(t *testing.T) string {
	t.Helper()
	name := "node-" + w.namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kept": "yes"}}}
	if _, err := w.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return name
}

func (w *world) addPod(t *testing.T, node, name string) {
	t.Helper()
	now := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{"test": w.namespace, "app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &now, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if _, err := w.Client.CoreV1().Pods(w.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := w.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// drained drains until the result is as wanted.
func (w *world) drained(t *testing.T, d rollout.Decision, want rollout.AttemptResult, words string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		a := w.cluster.Drain(ctx, []rollout.Decision{d})[0]
		if a.Result != want || !strings.Contains(a.Message, words) || (a.Result == rollout.Errored) != (a.Err != nil) {
			return fmt.Errorf("got %+v, want %s with %q", a, want, words)
		}
		return nil
	})
}

func TestDrainEmptiesANodeAndGivesItBack(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	node := w.addNode(t)
	w.addPod(t, node, "web")
	d := w.draining(node)
	w.drained(t, d, rollout.Drained, "")
	if _, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod: got %v, want it gone", err)
	}
	mark := rollout.CordonMark(w.instance.ID(), "cni")
	if n := w.node(t, node); !n.Spec.Unschedulable || n.Annotations[health.CordonedByAnnotation] != mark {
		t.Errorf("cordoned: %t by %q, want by %q", n.Spec.Unschedulable, n.Annotations[health.CordonedByAnnotation], mark)
	}

	if err := w.cluster.Uncordon(t.Context(), []rollout.Uncordon{{Node: node, Policy: "other"}}); err != nil {
		t.Error(err)
	}
	if !w.node(t, node).Spec.Unschedulable {
		t.Error("a cordon of another policy was taken off")
	}
	for range 2 { // the second time there is nothing to do
		if err := w.cluster.Uncordon(t.Context(), []rollout.Uncordon{{Node: node, Policy: "cni"}, {Node: "no-such-node", Policy: "cni"}}); err != nil {
			t.Error(err)
		}
	}
	n := w.node(t, node)
	if _, marked := n.Annotations[health.CordonedByAnnotation]; marked || n.Spec.Unschedulable || n.Annotations["kept"] != "yes" {
		t.Errorf("unschedulable: %t, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// Of a node that somebody has uncordoned only the mark is taken off, whether he has
// cordoned it again or not. One that has been drained anew since that was seen is for
// the next plan: without its mark nobody would give it back.
func TestMarkIsTakenOffOnlyFromACordonThatIsNotOurs(t *testing.T) {
	const cordoned, uncordoned = `{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`
	for name, tc := range map[string]struct {
		since                 func(t *testing.T, w *world, node string)
		unschedulable, marked bool
	}{
		"uncordoned": {func(*testing.T, *world, string) {}, false, false},
		"cordoned again": {func(t *testing.T, w *world, node string) {
			w.cordonAs(t, node, types.StrategicMergePatchType, cordoned)
		}, true, false},
		"drained anew": {func(t *testing.T, w *world, node string) {
			w.drained(t, w.draining(node), rollout.Drained, "")
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			node := w.addNode(t)
			w.drained(t, w.draining(node), rollout.Drained, "")
			w.cordonAs(t, node, types.StrategicMergePatchType, uncordoned)
			tc.since(t, w, node)
			if err := w.cluster.Uncordon(t.Context(), []rollout.Uncordon{{Node: node, Policy: "cni", MarkOnly: true}}); err != nil {
				t.Error(err)
			}
			n := w.node(t, node)
			if mark, marked := n.Annotations[health.CordonedByAnnotation]; marked != tc.marked || n.Spec.Unschedulable != tc.unschedulable {
				t.Errorf("unschedulable: %t, marked by %q; want %t, and marked: %t", n.Spec.Unschedulable, mark, tc.unschedulable, tc.marked)
			}
		})
	}
}

func TestCordonOfSomebodyElseIsNotOurs(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	node := w.addNode(t)
	if _, err := w.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.addPod(t, node, "web")
	d := w.draining(node)
	w.drained(t, d, rollout.Errored, "somebody else has cordoned the node")
	if _, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod: %v", err)
	}
	d.CordonedToo = true
	w.drained(t, d, rollout.Drained, "")
	if mark := w.node(t, node).Annotations[health.CordonedByAnnotation]; mark != "" {
		t.Errorf("marked as cordoned by %s", mark)
	}
	if err := w.cluster.Uncordon(t.Context(), []rollout.Uncordon{{Node: node, Policy: "cni"}}); err != nil {
		t.Error(err)
	}
	if !w.node(t, node).Spec.Unschedulable {
		t.Error("somebody else's cordon was taken off")
	}
}

// cordonAs sets or clears the cordon of a node as somebody else's program does.
func (w *world) cordonAs(t *testing.T, node string, kind types.PatchType, body string) {
	t.Helper()
	if _, err := w.Client.CoreV1().Nodes().Patch(t.Context(), node, kind, []byte(body), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
}

func TestWhoeverCordonsANodeDuringAVisitKeepsIt(t *testing.T) {
	const cordoned, uncordoned = `{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`
	for name, tc := range map[string]struct {
		cordon func(t *testing.T, w *world, node string)
		stays  bool
	}{
		"uncordoned and cordoned again": {func(t *testing.T, w *world, node string) {
			w.cordonAs(t, node, types.StrategicMergePatchType, uncordoned)
			w.cordonAs(t, node, types.StrategicMergePatchType, cordoned)
		}, true},
		"applied": {func(t *testing.T, w *world, node string) {
			w.cordonAs(t, node, types.ApplyPatchType, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"spec":{"unschedulable":true}}`, node))
		}, true},
		"something else was changed": {func(t *testing.T, w *world, node string) {
			w.cordonAs(t, node, types.StrategicMergePatchType, `{"metadata":{"labels":{"rack":"7"}}}`)
		}, false},
		// Nothing is changed by it, so that nobody can know.
		"cordoned on top": {func(t *testing.T, w *world, node string) {
			w.cordonAs(t, node, types.StrategicMergePatchType, cordoned)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			node := w.addNode(t)
			w.drained(t, w.draining(node), rollout.Drained, "")
			tc.cordon(t, w, node)
			if tc.stays {
				w.drained(t, w.draining(node), rollout.Errored, "somebody else has cordoned the node")
			}
			if err := w.cluster.Uncordon(t.Context(), []rollout.Uncordon{{Node: node, Policy: "cni"}}); err != nil {
				t.Error(err)
			}
			n := w.node(t, node)
			if mark, marked := n.Annotations[health.CordonedByAnnotation]; marked || n.Spec.Unschedulable != tc.stays {
				t.Errorf("unschedulable: %t, marked by %q; want %t and no mark", n.Spec.Unschedulable, mark, tc.stays)
			}
		})
	}
}

func TestDrainIsRefusedByABudgetAndSaysWhich(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.objects(t, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: strict}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}`)...)
	node := "node-000" // whose pods run
	t.Cleanup(func() {
		if err := w.cluster.Uncordon(context.Background(), []rollout.Uncordon{{Node: node, Policy: "cni"}}); err != nil {
			t.Error(err)
		}
	})
	w.addPod(t, node, "web")
	w.budgetSees(t, 1)
	w.drained(t, w.draining(node), rollout.Remaining, "The disruption budget strict needs 1 healthy pods")
	if _, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod: %v", err)
	}
}

// The node is not touched for an eviction that a budget would not allow.
func TestNodeIsNotEmptiedForAnEvictionThatWouldBeRefused(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	objects := w.objects(t, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: strict}
spec: {minAvailable: 3, selector: {matchLabels: {app: agent}}}`)
	w.pass(t, append(objects, w.agent(t, "example.com/agent:1"))...)
	pod := w.wantPods(t, 3)[0]
	w.budgetSees(t, 3)
	w.addPod(t, pod.Node, "web")
	d := w.draining(pod.Node)
	d.Pod = eviction(pod).Pod
	w.drained(t, d, rollout.Refused, "The disruption budget strict needs 3 healthy pods")
	other := w.addNode(t) // that somebody has cordoned, and that is to be visited all the same
	w.cordonAs(t, other, types.MergePatchType, `{"spec":{"unschedulable":true}}`)
	d.Node, d.CordonedToo = other, true
	w.drained(t, d, rollout.Refused, "The disruption budget strict needs 3 healthy pods")
	if n := w.node(t, pod.Node); n.Spec.Unschedulable || n.Annotations[health.CordonedByAnnotation] != "" {
		t.Error("the node was cordoned")
	}
	for _, name := range []string{"web", pod.Name.Name} {
		p, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.DeletionTimestamp != nil {
			t.Errorf("pod %s: %v, going since %v", name, err, p.DeletionTimestamp)
		}
	}
}

// budgetSees waits until the budget counts so many healthy pods.
func (w *world) budgetSees(t *testing.T, healthy int32) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, "strict", metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy != healthy {
			err = fmt.Errorf("the budget counts %d healthy pods, not %d", b.Status.CurrentHealthy, healthy)
		}
		return err
	})
}

func TestPodsThatMayNotGoAreNotEvicted(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	node := w.addNode(t)
	w.addPod(t, node, "web")
	d := w.draining(node)
	d.Drain.Force = false
	w.drained(t, d, rollout.Errored, "cannot delete")
	if _, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod: %v", err)
	}
}
