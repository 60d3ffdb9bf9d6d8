// SPDX-License-Identifier: Apache-2.0

package check

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/render"
)

// given are objects that every cluster has.
var given = []string{"kube-root-ca.crt", "default", "system-cluster-critical", "system-node-critical"}

// references checks that what a pod cannot start without is in the fleet.
func (r *report) references(a agent, objects []render.Object) {
	there := map[inventory.ID]bool{}
	for _, o := range objects {
		there[inventory.IDOf(o.Unstructured)] = true
	}
	for _, ref := range health.References(required(a.pod()), a.Namespace) {
		if there[ref] || slices.Contains(given, ref.Name) {
			continue
		}
		id := MissingReference
		if ref.GroupKind.Kind == "Secret" {
			id = MissingSecret
		}
		r.find(id, a.subject, podField, "names %s, which is not in the fleet: no pod starts without it", inventory.Format(ref))
	}
}

// required is the spec without what may be missing.
func required(spec *corev1.PodSpec) *corev1.PodSpec {
	spec = spec.DeepCopy()
	spec.ImagePullSecrets = nil // the image may be public all the same
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && isTrue(v.ConfigMap.Optional) || v.Secret != nil && isTrue(v.Secret.Optional)
	})
	for i := range spec.Volumes {
		if p := spec.Volumes[i].Projected; p != nil {
			p.Sources = slices.DeleteFunc(p.Sources, func(s corev1.VolumeProjection) bool {
				return s.ConfigMap != nil && isTrue(s.ConfigMap.Optional) || s.Secret != nil && isTrue(s.Secret.Optional)
			})
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].Env = slices.DeleteFunc(list[i].Env, optionalVariable)
			list[i].EnvFrom = slices.DeleteFunc(list[i].EnvFrom, func(e corev1.EnvFromSource) bool {
				return e.ConfigMapRef != nil && isTrue(e.ConfigMapRef.Optional) || e.SecretRef != nil && isTrue(e.SecretRef.Optional)
			})
		}
	}
	return spec
}

func optionalVariable(e corev1.EnvVar) bool {
	from := e.ValueFrom
	return from != nil && (from.ConfigMapKeyRef != nil && isTrue(from.ConfigMapKeyRef.Optional) ||
		from.SecretKeyRef != nil && isTrue(from.SecretKeyRef.Optional))
}

func isTrue(b *bool) bool { return b != nil && *b }

// configs finds ConfigMaps and Secrets whose content can change under the pods
// of a policy.
func (r *report) configs(agents []agent, objects []render.Object) {
	users := map[inventory.ID][]string{}
	for _, a := range agents {
		if a.policy == nil {
			continue
		}
		for _, ref := range health.References(a.pod(), a.Namespace) {
			users[ref] = append(users[ref], a.object)
		}
	}
	for _, o := range objects {
		id := inventory.IDOf(o.Unstructured)
		if id.GroupKind.Group != "" || id.GroupKind.Kind != "ConfigMap" && id.GroupKind.Kind != "Secret" {
			continue
		}
		if by := users[id]; len(by) > 0 && !generated(o) && !immutable(o) {
			r.find(MutableConfig, subjectOf(o), "", "is used by %s and keeps its name when it changes: a change is no new template, and reaches pods outside the windows", strings.Join(by, ", "))
		}
	}
}

// contentHash is what kustomize adds to the name of what it generates.
var contentHash = regexp.MustCompile(`-[bcdfghkmt2456789]{10}$`)

func generated(o render.Object) bool {
	return o.OriginalName != o.GetName() && contentHash.MatchString(o.GetName()) && !strings.HasSuffix(o.OriginalName, contentHash.FindString(o.GetName()))
}

func immutable(o render.Object) bool {
	fixed, _, err := unstructured.NestedBool(o.Object, "immutable")
	return err == nil && fixed
}
