// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// A Condition is where an object other than a pod or a DaemonSet is.
type Condition string

const (
	// Ready: the object has reached what its spec asks for.
	Ready Condition = "Ready"
	// InProgress: its controller is still working on it.
	InProgress Condition = "InProgress"
	// Broken: its controller reports that it cannot.
	Broken Condition = "Broken"
	// Terminating: it is being deleted.
	Terminating Condition = "Terminating"
)

// StatusOf says where an object is, and why it is not Ready. A pod or a
// DaemonSet is refused: kstatus reads the wall clock for the one, and calls an
// OnDelete rollout unfinished for the other.
func StatusOf(obj *unstructured.Unstructured) (Condition, string, error) {
	switch obj.GroupVersionKind().GroupKind().String() {
	case corev1.SchemeGroupVersion.WithKind("Pod").GroupKind().String(), "DaemonSet.apps":
		return "", "", fmt.Errorf("status of %s: classified from pods and nodes", obj.GetKind())
	}
	result, err := status.Compute(obj)
	if err != nil {
		return "", "", fmt.Errorf("status of %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	switch result.Status {
	case status.CurrentStatus:
		return Ready, "", nil
	case status.FailedStatus:
		return Broken, result.Message, nil
	case status.TerminatingStatus:
		return Terminating, result.Message, nil
	default:
		return InProgress, result.Message, nil
	}
}

// Established says whether the API server serves a CustomResourceDefinition's
// kind, and if not why.
func Established(crd *unstructured.Unstructured) (bool, string) {
	condition, message, err := StatusOf(crd)
	if err != nil {
		return false, err.Error()
	}
	if condition != Ready && message == "" {
		message = string(condition)
	}
	return condition == Ready, message
}
