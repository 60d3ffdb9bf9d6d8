// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/rollout"
)

// A pod that an admission policy would refuse is never evicted for: the policy
// halts before, says why, and goes on by itself once nobody objects.
func TestPodThatIsNotAdmittedHaltsBeforeAnyEviction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "4", maxFailures: 3}.yaml(w),
	}))
	w.settled(t, "1")

	allow := w.deny(t, "2")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		if p := s.Policies[0]; !p.Halted || !strings.Contains(p.HaltMessage, "version 2 is not for this house") {
			return fmt.Errorf("not halted with the words of the admission policy: %+v", p)
		}
		for _, n := range s.Nodes {
			if n.Reason != string(rollout.NotAdmitted) {
				return fmt.Errorf("node %s: %s, want %s", n.Node, n.Reason, rollout.NotAdmitted)
			}
		}
		return nil
	})
	w.polled(t, 3)
	if given := w.orders(t); len(given) > 0 {
		t.Fatalf("pods were deleted though no new one is admitted: %v", given)
	}

	allow()
	w.settled(t, "2")
	w.onceEach(t)
}

// deny refuses pods of a version in the test's namespace until the function that
// it returns is called. It returns once the API server heeds it.
func (w *world) deny(t *testing.T, version string) (allow func()) {
	t.Helper()
	name := w.namespace
	policies := w.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := w.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("!has(object.metadata.annotations) || !('%[1]s' in object.metadata.annotations) || object.metadata.annotations['%[1]s'] != '%[2]s'", versionKey, version),
				Message:    "version " + version + " is not for this house",
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bindings.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allow = func() {
		for _, err := range []error{bindings.Delete(context.Background(), name, metav1.DeleteOptions{}), policies.Delete(context.Background(), name, metav1.DeleteOptions{})} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	w.heeded(t, version)
	return allow
}

// heeded waits until the API server refuses a pod of the version.
func (w *world) heeded(t *testing.T, version string) {
	t.Helper()
	pod := barePod(w.namespace, version)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		_, err := w.Client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "is not for this house") {
			return fmt.Errorf("a pod of version %s is admitted: %v", version, err)
		}
		return nil
	})
}

func barePod(namespace, version string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare", Annotations: map[string]string{versionKey: version}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent:v1"}}},
	}
}
