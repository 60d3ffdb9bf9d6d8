// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// TemplateGenerationLabel is on every pod that the DaemonSet controller makes.
const TemplateGenerationLabel = "pod-template-generation"

// A Pod is what decisions need to know of a DaemonSet's pod. What every plan reads
// of every pod comes first, side by side: there may be very many, and they lie
// about in no order.
type Pod struct {
	Node  string
	Owner types.UID // of the DaemonSet that controls it; "" when none does
	Hash  string    // the revision it was created from
	// TemplateGeneration is that of the DaemonSet then; 0 when it is not known.
	TemplateGeneration int64
	Phase              corev1.PodPhase
	Deleting           bool // has a deletionTimestamp
	Ready              bool
	Disruption         string    // who or what ends it, if that is said: the message of its DisruptionTarget condition
	ReadySince         time.Time // zero when not Ready
	Created            time.Time

	Name             types.NamespacedName
	UID              types.UID
	ResourceVersion  string
	UnreadySince     time.Time // since when it is not Ready; zero when Ready or not known
	DeletionDeadline time.Time // the deletionTimestamp, which already includes the grace period
	Finalizers       []string  // that keep it from going; nil unless Deleting
	GracePeriod      time.Duration
	Problem          Problem
	References       []inventory.ID
	Needs            *Needs // nil when not known
}

// PodOf reads a Pod object.
func PodOf(p *corev1.Pod) Pod {
	pod := Pod{
		Name:               types.NamespacedName{Namespace: p.Namespace, Name: p.Name},
		UID:                p.UID,
		ResourceVersion:    p.ResourceVersion,
		Node:               nodeOf(p),
		Hash:               p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey],
		TemplateGeneration: templateGeneration(p.Labels[TemplateGenerationLabel]),
		Phase:              p.Status.Phase,
		Created:            p.CreationTimestamp.Time,
		GracePeriod:        gracePeriod(p),
		Problem:            problemOf(p),
		References:         References(&p.Spec, p.Namespace),
	}
	needs := NeedsOf(&p.Spec)
	pod.Needs = &needs
	if c := metav1.GetControllerOfNoCopy(p); c != nil && c.Kind == "DaemonSet" {
		pod.Owner = c.UID
	}
	if p.DeletionTimestamp != nil {
		pod.Deleting, pod.DeletionDeadline = true, p.DeletionTimestamp.Time
		pod.Finalizers = slices.Clone(p.Finalizers)
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue:
			pod.Disruption = joinWords(c.Reason, c.Message)
		case c.Type != corev1.PodReady:
		case c.Status == corev1.ConditionTrue:
			pod.Ready, pod.ReadySince = true, c.LastTransitionTime.Time
		default:
			pod.UnreadySince = c.LastTransitionTime.Time
		}
	}
	return pod
}

// Ended says that the pod's containers have ended and will not start again.
func (p *Pod) Ended() bool {
	return p.Phase == corev1.PodFailed || p.Phase == corev1.PodSucceeded
}

// nodeOf is the node that a pod runs on, or the one that the DaemonSet
// controller pinned it to while the scheduler has not bound it yet.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

func gracePeriod(p *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case p.DeletionGracePeriodSeconds != nil:
		seconds = *p.DeletionGracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}
