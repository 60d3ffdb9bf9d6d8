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

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/rollout"
)

// question waits until the watch has the DaemonSet's revision, and asks about it.
func (w *world) question(t *testing.T, node string) rollout.Question {
	t.Helper()
	q := rollout.Question{Kind: rollout.Admission, Node: node}
	testkit.Eventually(t, time.Minute, func(context.Context) error {
		_, sets, _ := w.cluster.Snapshot()
		d := w.daemonSet(sets)
		q.DaemonSet, q.Revision = d.Name, d.Revision
		if !d.RevisionObserved {
			return fmt.Errorf("the revision of %s is not observed", d.Name)
		}
		return nil
	})
	return q
}

func (w *world) wantAnswer(t *testing.T, q rollout.Question, reply rollout.Reply, words string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		if got := w.cluster.Admission(ctx, q); got.Reply != reply || !strings.Contains(got.Message, words) {
			return fmt.Errorf("got %+v, want %s with %q", got, reply, words)
		}
		return nil
	})
}

func TestPodThatWouldBeAdmitted(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	q := w.question(t, "node-001")
	w.wantAnswer(t, q, rollout.Yes, "")
	pods, err := w.Client.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods, %v: a dry run must create none", len(pods.Items), err)
	}
	q.Revision = "gone"
	w.wantAnswer(t, q, rollout.Unknown, "another template")
}

// The pod of the dry run is the one that the controller makes, so quota counts
// what the template asks for, and what refuses the one refuses the other.
func TestPodThatWouldBeRefused(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	q := w.question(t, "node-001")
	_, err := w.Client.CoreV1().ResourceQuotas(w.namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantAnswer(t, q, rollout.No, `pods "agent-dry-run" is forbidden: exceeded quota: small`)
}

func TestPodThatPodSecurityRefuses(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	w.wantPods(t, 3)
	q := w.question(t, "node-001")
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := w.Client.CoreV1().Namespaces().Patch(t.Context(), w.namespace, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantAnswer(t, q, rollout.No, "violates PodSecurity")
}

// The dry run differs from the pod that the controller makes only where it must.
func TestDryRunIsThePodOfTheController(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.agent(t, "example.com/agent:1"))
	pod := w.wantPods(t, 3)[0]
	ds, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ours := cluster.PodOf(ds, w.question(t, pod.Node))
	theirs, err := w.Client.CoreV1().Pods(w.namespace).Get(t.Context(), pod.Name.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(theirs.Labels, corev1.LabelTopologyZone) // the API server copies it from the node
	if got, want := ours.Labels, theirs.Labels; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("labels: got %v, want %v", got, want)
	}
	if got, want := ours.GenerateName, theirs.GenerateName; got != want {
		t.Errorf("generateName: got %q, want %q", got, want)
	}
	if got, want := ours.OwnerReferences[0].UID, theirs.OwnerReferences[0].UID; got != want || !*ours.OwnerReferences[0].Controller {
		t.Errorf("owner: got %v, want %v", ours.OwnerReferences, theirs.OwnerReferences)
	}
	if got, want := ours.Spec.Affinity.String(), theirs.Spec.Affinity.String(); got != want {
		t.Errorf("affinity: got %s, want %s", got, want)
	}
	missing := map[string]bool{}
	for _, toleration := range theirs.Spec.Tolerations {
		missing[toleration.String()] = true
	}
	for _, toleration := range ours.Spec.Tolerations {
		if !missing[toleration.String()] {
			t.Errorf("toleration %s is not the controller's", toleration.String())
		}
		delete(missing, toleration.String())
	}
	if len(missing) > 0 {
		t.Errorf("tolerations are missing: %v", missing)
	}
}
