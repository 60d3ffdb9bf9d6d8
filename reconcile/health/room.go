// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Room is what has to be known to say whether a DaemonSet's new pod fits on a
// node.
type Room struct {
	Allocatable corev1.ResourceList // of the node
	Pods        []corev1.Pod        // on it; those that have ended and those that are replaced do not count
	Replaced    func(*corev1.Pod) bool
}

// Lacks says what a pod would not find on the node; "" when it fits. Only pods
// that the new one cannot displace take room: those of its priority or a higher
// one, or all of them if it never displaces any or its priority is not known.
func (r Room) Lacks(spec *corev1.PodSpec) string {
	wanted, keeps := NeedsOf(spec), r.keeps(spec)
	used, pods := map[corev1.ResourceName]int64{}, int64(0)
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || r.Replaced(p) || !keeps(p) {
			continue
		}
		pods++
		needs := NeedsOf(&p.Spec)
		for _, request := range needs.Requests {
			used[request.Name] += request.Milli
		}
		for _, port := range wanted.Ports {
			for _, taken := range needs.Ports {
				if port.conflicts(taken) {
					return fmt.Sprintf("host port %d/%s is taken by pod %s/%s", port.Port, port.Protocol, p.Namespace, p.Name)
				}
			}
		}
	}
	if most, limited := r.Allocatable[corev1.ResourcePods]; limited && most.Value() < pods+1 {
		return fmt.Sprintf("the node takes no more than %d pods", most.Value())
	}
	return r.lacking(wanted, used)
}

func (r Room) lacking(wanted Needs, used map[corev1.ResourceName]int64) string {
	var lacking []string
	for _, request := range wanted.Requests {
		has := r.Allocatable[request.Name]
		if left := max(has.MilliValue()-used[request.Name], 0); request.Milli > left {
			lacking = append(lacking, fmt.Sprintf("%s: %s wanted, %s left", request.Name, amount(request.Milli, has.Format), amount(left, has.Format)))
		}
	}
	return strings.Join(lacking, "; ")
}

// amount writes thousandths as people write them in a manifest.
func amount(milli int64, f resource.Format) string {
	if f == "" {
		f = resource.DecimalSI
	}
	if milli%1000 == 0 {
		return resource.NewQuantity(milli/1000, f).String()
	}
	return resource.NewMilliQuantity(milli, f).String()
}

// keeps says which pods a new one cannot displace.
func (r Room) keeps(spec *corev1.PodSpec) func(*corev1.Pod) bool {
	priority, known := r.priority(spec)
	if never := spec.PreemptionPolicy != nil && *spec.PreemptionPolicy == corev1.PreemptNever; never || !known {
		return func(*corev1.Pod) bool { return true }
	}
	return func(p *corev1.Pod) bool { return p.Spec.Priority == nil || *p.Spec.Priority >= priority }
}

// priority of the new pod: as the template has it, or as a pod of the same class
// on the node has it.
func (r Room) priority(spec *corev1.PodSpec) (int32, bool) {
	if spec.Priority != nil {
		return *spec.Priority, true
	}
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Spec.PriorityClassName == spec.PriorityClassName && p.Spec.Priority != nil {
			return *p.Spec.Priority, true
		}
	}
	return 0, false
}
