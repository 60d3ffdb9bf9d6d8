// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// References lists every ConfigMap, Secret, ServiceAccount,
// PersistentVolumeClaim, PriorityClass and RuntimeClass that a pod spec names,
// sorted and each once. A pod needs them at its next restart, optional or not.
func References(spec *corev1.PodSpec, namespace string) []inventory.ID {
	if spec == nil {
		return nil
	}
	r := referrer{namespace: namespace}
	r.core("ServiceAccount", spec.ServiceAccountName)
	r.cluster("scheduling.k8s.io", "PriorityClass", spec.PriorityClassName)
	if spec.RuntimeClassName != nil {
		r.cluster("node.k8s.io", "RuntimeClass", *spec.RuntimeClassName)
	}
	for _, c := range spec.ResourceClaims {
		r.claim(c)
	}
	for _, s := range spec.ImagePullSecrets {
		r.core("Secret", s.Name)
	}
	for i := range spec.Volumes {
		r.volume(&spec.Volumes[i].VolumeSource)
	}
	r.containers(spec.InitContainers)
	r.containers(spec.Containers)
	for _, e := range spec.EphemeralContainers {
		r.environment(e.Env, e.EnvFrom)
	}
	slices.SortFunc(r.ids, inventory.Compare)
	return slices.Compact(r.ids)
}

type referrer struct {
	namespace string
	ids       []inventory.ID
}

func (r *referrer) core(kind, name string) {
	if name != "" {
		r.ids = append(r.ids, inventory.ID{Namespace: r.namespace, Name: name, GroupKind: schema.GroupKind{Kind: kind}})
	}
}

func (r *referrer) cluster(group, kind, name string) {
	if name != "" {
		r.ids = append(r.ids, inventory.ID{Name: name, GroupKind: schema.GroupKind{Group: group, Kind: kind}})
	}
}

// claim is on devices: one claim for all, or a template of one for each pod.
func (r *referrer) claim(c corev1.PodResourceClaim) {
	const group = "resource.k8s.io"
	for kind, name := range map[string]*string{"ResourceClaim": c.ResourceClaimName, "ResourceClaimTemplate": c.ResourceClaimTemplateName} {
		if name != nil && *name != "" {
			r.ids = append(r.ids, inventory.ID{Namespace: r.namespace, Name: *name, GroupKind: schema.GroupKind{Group: group, Kind: kind}})
		}
	}
}

func (r *referrer) secret(ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.core("Secret", ref.Name)
	}
}

func (r *referrer) containers(containers []corev1.Container) {
	for i := range containers {
		r.environment(containers[i].Env, containers[i].EnvFrom)
	}
}

func (r *referrer) environment(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.core("ConfigMap", ref.Name)
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			r.core("Secret", ref.Name)
		}
	}
	for _, f := range from {
		if f.ConfigMapRef != nil {
			r.core("ConfigMap", f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			r.core("Secret", f.SecretRef.Name)
		}
	}
}

func (r *referrer) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.core("ConfigMap", v.ConfigMap.Name)
	case v.Secret != nil:
		r.core("Secret", v.Secret.SecretName)
	case v.PersistentVolumeClaim != nil:
		r.core("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
	case v.Projected != nil:
		r.projected(v.Projected.Sources)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		if class := v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName; class != nil {
			r.cluster("storage.k8s.io", "StorageClass", *class)
		}
	case v.CSI != nil:
		r.secret(v.CSI.NodePublishSecretRef)
	default:
		r.legacyVolume(v)
	}
}

func (r *referrer) projected(sources []corev1.VolumeProjection) {
	for _, s := range sources {
		if s.ConfigMap != nil {
			r.core("ConfigMap", s.ConfigMap.Name)
		}
		if s.Secret != nil {
			r.core("Secret", s.Secret.Name)
		}
		if s.ClusterTrustBundle != nil && s.ClusterTrustBundle.Name != nil {
			r.cluster("certificates.k8s.io", "ClusterTrustBundle", *s.ClusterTrustBundle.Name)
		}
	}
}

// legacyVolume covers the in-tree drivers that read a Secret.
func (r *referrer) legacyVolume(v *corev1.VolumeSource) {
	switch {
	case v.AzureFile != nil:
		r.core("Secret", v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.secret(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.secret(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		r.secret(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		r.secret(v.ISCSI.SecretRef)
	case v.RBD != nil:
		r.secret(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		r.secret(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		r.secret(v.StorageOS.SecretRef)
	}
}
