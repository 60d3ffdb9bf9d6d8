// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/window"
)

// visit checks what a DaemonSet says of time against its policy.
func (r *report) visit(a agent) {
	if a.policy == nil {
		return
	}
	r.slowStart(a)
	settles, own := a.settles(), firstReady(a.pod())
	if settles >= a.policy.ReadyTimeout {
		r.find(ReadyTimeout, a.subject, "", "takes at least %s to settle (ready after %s, then minReadySeconds), and readyTimeout of UpgradePolicy %s is %s: every node would fail",
			words(settles), words(own), a.policy.Name, words(a.policy.ReadyTimeout))
	}
	if grace := gracePeriod(a.pod()); grace > a.policy.VisitDuration {
		r.find(LongGracePeriod, a.subject, podField+".terminationGracePeriodSeconds",
			"lets an old pod stay for %s, longer than visitDuration %s of UpgradePolicy %s: a visit may go on after its window has closed",
			words(grace), words(a.policy.VisitDuration), a.policy.Name)
	}
}

// slowStart checks the time that a container may take to start.
func (r *report) slowStart(a agent) {
	each(a.pod().Containers, "containers", func(c *corev1.Container, field string) {
		p := c.StartupProbe
		if p == nil {
			return
		}
		threshold := int64(p.FailureThreshold)
		if threshold == 0 {
			threshold = 3 // the default of Kubernetes
		}
		allowed := time.Duration(int64(p.InitialDelaySeconds)+threshold*int64(periodOf(p))) * time.Second
		if allowed > a.policy.ReadyTimeout {
			r.find(SlowStart, a.subject, field+".startupProbe", "gives container %s %s to start, longer than readyTimeout %s of UpgradePolicy %s: a slow start would count as a failure",
				c.Name, words(allowed), words(a.policy.ReadyTimeout), a.policy.Name)
		}
	})
}

// settles is the least time from a new pod to a settled node.
func (a agent) settles() time.Duration {
	ready := max(a.Spec.MinReadySeconds, a.policy.MinReadySeconds)
	return firstReady(a.pod()) + time.Duration(ready)*time.Second
}

// firstReady is the least time from the start of a pod's containers to Ready.
func firstReady(spec *corev1.PodSpec) time.Duration {
	var longest int32
	for i := range spec.Containers {
		c := &spec.Containers[i]
		var seconds int32
		if p := c.StartupProbe; p != nil {
			seconds = p.InitialDelaySeconds
		}
		if p := c.ReadinessProbe; p != nil {
			seconds = max(seconds, p.InitialDelaySeconds) + (max(p.SuccessThreshold, 1)-1)*periodOf(p)
		}
		longest = max(longest, seconds)
	}
	return time.Duration(longest) * time.Second
}

// periodOf is a probe's period, with the default of Kubernetes.
func periodOf(p *corev1.Probe) int32 {
	if p.PeriodSeconds == 0 {
		return 10
	}
	return p.PeriodSeconds
}

// gracePeriod is the pod's, with the default of Kubernetes.
func gracePeriod(spec *corev1.PodSpec) time.Duration {
	if spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
}

// visitDuration checks that a policy's estimate is not less than what its
// DaemonSets, one after another, take at best.
func (r *report) visitDuration(s subject, policyName string, agents []agent) {
	var least, estimate time.Duration
	for _, a := range agents {
		if a.policy != nil && a.policy.Name == policyName {
			least += a.settles()
			estimate = a.policy.VisitDuration
		}
	}
	if least > estimate {
		r.find(ShortVisitDuration, s, "spec.visitDuration", "is %s, and its DaemonSets take at least %s on each node to settle: visits would go on after the window has closed", words(estimate), words(least))
	}
}

func words(d time.Duration) string { return window.FormatDuration(d) }

// budgets finds disruption budgets that refuse every eviction of a governed pod.
func (r *report) budgets(agents []agent, objects []object) {
	for _, o := range objects {
		pdb, ok := o.typed.(*policyv1.PodDisruptionBudget)
		if !ok || pdb.Spec.Selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue // said when it was read
		}
		field, value := countless(pdb)
		for _, a := range agents {
			if field != "" && a.policy != nil && a.Namespace == pdb.Namespace && selector.Matches(labels.Set(a.Spec.Template.Labels)) {
				r.find(DisruptionBudget, o.subject, field, "is %s, which needs the number of pods wanted, and Kubernetes knows none for the pods of %s: no eviction is ever allowed", value, a.object)
			}
		}
	}
}

// countless is the field of a budget that cannot be counted for a DaemonSet.
func countless(pdb *policyv1.PodDisruptionBudget) (field, value string) {
	switch least, most := pdb.Spec.MinAvailable, pdb.Spec.MaxUnavailable; {
	case most != nil:
		return "spec.maxUnavailable", most.String()
	case least != nil && least.Type == intstr.String:
		return "spec.minAvailable", least.String()
	}
	return "", ""
}
