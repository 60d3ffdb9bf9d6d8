// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Admission finds out whether the API server would admit the pod that the
// DaemonSet controller makes of a revision on a node: by a dry run, which goes
// through quota, Pod Security and every webhook, and creates nothing.
//
// A webhook that takes no dry run makes the API server refuse it without having
// asked anybody else. That says nothing about the pod, and would for ever, so the
// answer is a yes with a note: the first nodes of a revision are few anyway.
func (c *Cluster) Admission(ctx context.Context, q rollout.Question) rollout.Answer {
	d, ok := c.liveAt(q)
	if !ok {
		return rollout.Answer{Reply: rollout.Unknown, Message: "the DaemonSet has another template by now"}
	}
	pod := podOf(d, q)
	err := c.once(ctx, func(ctx context.Context) error {
		_, err := c.typed.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: inventory.FieldManager,
		})
		return err
	})
	return admissionOf(err)
}

// admissionOf reads the API server's answer to the dry run.
func admissionOf(err error) rollout.Answer {
	if err == nil {
		return rollout.Answer{Reply: rollout.Yes}
	}
	status, answered := statusOf(err)
	message := oneLine(status.Message)
	switch {
	case !answered:
		return rollout.Answer{Reply: rollout.Unknown, Message: oneLine(err.Error())}
	case noDryRun(err):
		return rollout.Answer{Reply: rollout.Yes, Message: "not checked beforehand: " + message}
	case lacksRight(status):
		return rollout.Answer{Reply: rollout.Unknown, Message: message + ": the agent needs the right to create pods, as examples/install has it"}
	case status.Code == http.StatusBadRequest, status.Code == http.StatusForbidden, status.Code == http.StatusUnprocessableEntity,
		strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request"):
		return rollout.Answer{Reply: rollout.No, Message: message}
	}
	return rollout.Answer{Reply: rollout.Unknown, Message: message}
}

// lacksRight tells a right that we do not have from a pod that is not wanted:
// both are forbidden, but only of the latter does an answer name the pod.
func lacksRight(status metav1.Status) bool {
	if status.Code == http.StatusUnauthorized {
		return true
	}
	return status.Code == http.StatusForbidden && status.Details != nil && status.Details.Name == "" &&
		strings.Contains(status.Message, "cannot create resource")
}

// liveAt is the DaemonSet as the watch has it, if its template is still the one
// of the revision.
func (c *Cluster) liveAt(q rollout.Question) (*appsv1.DaemonSet, bool) {
	d, ok := c.feeds.daemonSets.get(q.DaemonSet.Namespace, q.DaemonSet.Name)
	if !ok {
		return nil, false
	}
	now := health.DaemonSetOf(d, c.feeds.revisions.values())
	return d, now.RevisionObserved && now.Revision == q.Revision
}

// podOf is the pod that the DaemonSet controller would make, but for three
// things: its name, so that a refusal reads the same each time; that it does not
// block its owner's deletion, for which one needs more rights; and who asks.
func podOf(d *appsv1.DaemonSet, q rollout.Question) *corev1.Pod {
	owner := metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	owner.BlockOwnerDeletion = nil
	template := d.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name[:min(len(d.Name), 200)] + "-dry-run", GenerateName: d.Name + "-",
			Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = q.Revision
	if generation := d.Annotations[appsv1.DeprecatedTemplateGeneration]; generation != "" {
		pod.Labels[health.TemplateGenerationLabel] = generation
	}
	tolerate(&pod.Spec)
	pin(&pod.Spec, q.Node)
	return pod
}

// tolerate adds what the controller adds, unless the template has it.
func tolerate(spec *corev1.PodSpec) {
	for _, added := range health.AddedTolerations(spec.HostNetwork) {
		if !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.MatchToleration(&added) }) {
			spec.Tolerations = append(spec.Tolerations, added)
		}
	}
}

// pin replaces the required node affinity by the node's name. The controller has
// matched the nodes with it before.
func pin(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}
}
