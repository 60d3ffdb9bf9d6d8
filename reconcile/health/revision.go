// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"lamplighter.dev/inventory"
)

// A Revision is what decisions need to know of a ControllerRevision.
type Revision struct {
	Name       types.NamespacedName
	Owner      types.UID // of the DaemonSet that controls it; "" when none does
	Hash       string
	Number     int64
	Deleting   bool                    // has a deletionTimestamp
	Template   *corev1.PodTemplateSpec // read only; nil when it cannot be read
	References []inventory.ID          // what the template names
}

// RevisionOf reads a ControllerRevision object.
func RevisionOf(r *appsv1.ControllerRevision) Revision {
	out := Revision{
		Name:     types.NamespacedName{Namespace: r.Namespace, Name: r.Name},
		Hash:     r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey],
		Number:   r.Revision,
		Deleting: r.DeletionTimestamp != nil,
	}
	c := metav1.GetControllerOfNoCopy(r)
	if c == nil || c.Kind != "DaemonSet" {
		return out
	}
	out.Owner = c.UID
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if json.Unmarshal(r.Data.Raw, &data) == nil && data.Spec.Template != nil {
		out.Template = data.Spec.Template
		out.References = References(&out.Template.Spec, r.Namespace)
	}
	return out
}

// TemplateOf is the pod template that a ControllerRevision of a DaemonSet holds,
// with every field that it had in force.
func TemplateOf(r *appsv1.ControllerRevision) (map[string]any, error) {
	var data struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := utiljson.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("the template of revision %s cannot be read", r.Name)
	}
	if len(data.Spec.Template) == 0 {
		return nil, fmt.Errorf("revision %s holds no template", r.Name)
	}
	delete(data.Spec.Template, "$patch") // it says how to put the template in the place of another
	return data.Spec.Template, nil
}
