// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// drains is how the policies of these tests drain: only the test's own pods, and on
// nodes that somebody has cordoned too. The nodes are a crowd, since no other test's
// rollout gets on where one is cordoned.
func (w *world) drains(timeout string) string {
	return "  cordonedNodes: Visit\n  drain: {timeout: " + timeout + ", podSelector: {matchLabels: {drained: " + w.namespace + "}}}\n"
}

// Nodes are emptied before their pod is evicted, and given back when the visit is
// over; an agent that dies in between leaves no node cordoned.
func TestNodesAreDrainedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	place := w.crowd(t, smallFleet, 0)
	first := w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1") + place,
		"rules.yaml": rules{maxUnavailable: "1", fields: w.drains("5m")}.yaml(w),
	}))
	w.drainedTo(t, "1")
	others := w.others(t, 3)

	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2") + place})
	w.cordoned(t, 1)
	first.stop(t)
	w.start(t)
	w.drainedTo(t, "2")
	w.cordoned(t, 0)
	w.onceOn(t, smallFleet, "agent")
	if moved := others.moved(t); moved == 0 {
		t.Error("no other pod was evicted")
	}
	finished := w.stateNow(t).Ledger.Finished
	if len(finished) != smallFleet {
		t.Errorf("%d visits are finished, want one for each of %d nodes", len(finished), smallFleet)
	}
	for _, v := range finished {
		if v.Drain.Done.IsZero() || v.Steps[0].Evicted.Before(v.Drain.Done) {
			t.Errorf("node %s was visited at %s, drained at %s", v.Node, v.Steps[0].Evicted, v.Drain.Done)
		}
	}
}

// A node that cannot be emptied is given back, and its agent is left alone.
func TestDrainThatIsBlockedIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	place := w.crowd(t, smallFleet, 0)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1") + place,
		"rules.yaml": rules{maxUnavailable: "12", maxFailures: 12, fields: w.drains("2s")}.yaml(w),
	}))
	w.drainedTo(t, "1")
	others := w.others(t, 1)
	others.protect(t, 1)

	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2") + place})
	var blocked string
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		left := 0
		for _, n := range s.Nodes {
			if n.Reason == string(rollout.DrainFailed) && strings.Contains(n.Message, "strict") {
				blocked = n.Node
			}
			if n.Reason != string(rollout.UpToDate) {
				left++
			}
		}
		if blocked == "" || left != 1 {
			return fmt.Errorf("blocked: %q, %d nodes left", blocked, left)
		}
		return nil
	})
	w.cordoned(t, 0)
	if touched := w.countByNode(t); touched[blocked] != 0 || len(touched) != smallFleet-1 {
		t.Errorf("pods were deleted on %v, want all nodes but %s", touched, blocked)
	}
	if moved := others.moved(t); moved != 0 {
		t.Errorf("%d pods were evicted against their budget", moved)
	}
}

// A policy that leaves Git in the middle of a visit gives its node back, though the
// new pod is not well, and visits no other. When it comes back that node goes first.
func TestPolicyThatLeavesGitMidVisitGivesItsNodeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	place := w.crowd(t, smallFleet, 0)
	w.start(t)
	policies := rules{maxUnavailable: "1", fields: w.drains("5m")}.yaml(w)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1") + place, "rules.yaml": policies}))
	w.drainedTo(t, "1")
	w.commit(t, "version 2 never gets ready", map[string]string{"agent.yaml": daemonSet("2", "never-ready") + place})
	testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, 1) })
	w.cordoned(t, 1)

	none := w.commit(t, "no policy any more", map[string]string{"rules.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: none}\n"})
	w.inForce(t, none)
	w.cordoned(t, 0)
	if touched := w.countByNode(t); len(touched) != 1 {
		t.Errorf("pods were deleted on %v, want one node", touched)
	}

	w.commit(t, "the policy is back, with a cure", map[string]string{"agent.yaml": daemonSet("3", "v3") + place, "rules.yaml": policies})
	w.drainedTo(t, "3")
	w.cordoned(t, 0)
	w.withinBudget(t, 1)
	if order := w.orderedNodes(t); len(order) != smallFleet+1 || order[0] != order[1] {
		t.Errorf("pods were deleted on %v, want the node that was down first", order)
	}
}

// drainedTo waits until the nodes of the crowd have a Ready pod of a version, and the
// ledger says that nothing is under way. A visit whose drain another leader was at
// stays open for a minute.
func (w *world) drainedTo(t *testing.T, version string) {
	t.Helper()
	testkit.Eventually(t, time.Minute+patience, func(ctx context.Context) error {
		return errors.Join(w.running(ctx, smallFleet, version, "agent"), w.idle(ctx))
	})
}

// others are pods that are in the way of a drain, in a namespace of their own.
type others struct {
	*testkit.Cluster
	namespace string
	labels    map[string]string
	pods      *testkit.PodRecord
}

// others runs such pods on the nodes of the crowd, of which all are available.
func (w *world) others(t *testing.T, replicas int32) others {
	t.Helper()
	o := others{Cluster: w.Cluster, namespace: w.Namespace(t), labels: map[string]string{"drained": w.namespace}}
	o.pods = w.RecordPods(t, o.namespace, "")
	deployments := w.Client.AppsV1().Deployments(o.namespace)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: o.labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"crowd": w.instance.Name},
					Tolerations:  []corev1.Toleration{{Key: "crowd", Operator: corev1.TolerationOpExists}},
					Containers:   []corev1.Container{{Name: "web", Image: "example.com/web:v1"}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d of %d other pods are available", d.Status.AvailableReplicas, replicas)
		}
		return err
	})
	return o
}

// protect lets none of them go.
func (o others) protect(t *testing.T, healthy int32) {
	t.Helper()
	least := intstr.FromInt32(healthy)
	budgets := o.Client.PolicyV1().PodDisruptionBudgets(o.namespace)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "strict"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: o.labels},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		b, err := budgets.Get(ctx, "strict", metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy != healthy {
			err = fmt.Errorf("the budget counts %d healthy pods, not %d", b.Status.CurrentHealthy, healthy)
		}
		return err
	})
}

// moved counts those that were deleted.
func (o others) moved(t *testing.T) int {
	t.Helper()
	moved := 0
	for _, ds := range o.pods.DeletionsByNode(t) {
		moved += len(ds)
	}
	return moved
}

// cordoned waits until so many nodes carry the instance's mark.
func (w *world) cordoned(t *testing.T, want int) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		list, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := 0
		for _, n := range list.Items {
			if n.Annotations[health.CordonedByAnnotation] == rollout.CordonMark(w.instance.ID(), "agents") {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%d nodes carry our mark, want %d", got, want)
		}
		return nil
	})
}
