// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defect is something in an object that every API server refuses, with the path
// of the field.
type Defect struct {
	Field, Message string
	Encrypted      bool // it is what SOPS has encrypted that is wrong
}

// Defects lists what is wrong with an object whatever the cluster, in the order
// of its fields: names, labels and annotations beyond the limits, and entries of
// one list with the same key, which a server-side apply cannot tell apart; what
// SOPS has encrypted; and fields to ignore that cannot be. It quotes no values
// but keys, labels and pointers.
func Defects(obj *unstructured.Unstructured) []Defect {
	out := append(nameDefects(obj), encryptionDefects(obj)...)
	out = append(out, ignoreDefects(obj)...)
	out = append(out, metadataDefects(obj.Object, "metadata")...)
	if at, ok := templates[obj.GroupVersionKind().GroupKind().String()]; ok {
		template, _, err := unstructured.NestedMap(obj.Object, at...)
		if err != nil {
			return out // of another type than a map: the API server says so
		}
		where := strings.Join(at, ".")
		if len(at) > 0 {
			where += "."
			out = append(out, metadataDefects(template, where+"metadata")...)
		}
		pod, _, err := unstructured.NestedMap(template, "spec")
		if err != nil {
			return out
		}
		out = append(out, podDefects(pod, where+"spec")...)
	}
	if obj.GroupVersionKind().GroupKind().String() == "Service" {
		spec, _, err := unstructured.NestedMap(obj.Object, "spec")
		if err == nil {
			out = append(out, listed(spec, "spec", "ports", "port", "protocol")...)
		}
	}
	return out
}

// templates are where each kind has its pods.
var templates = map[string][]string{
	"Pod":                   {},
	"PodTemplate":           {"template"},
	"ReplicationController": {"spec", "template"},
	"DaemonSet.apps":        {"spec", "template"},
	"Deployment.apps":       {"spec", "template"},
	"ReplicaSet.apps":       {"spec", "template"},
	"StatefulSet.apps":      {"spec", "template"},
	"Job.batch":             {"spec", "template"},
	"CronJob.batch":         {"spec", "jobTemplate", "spec", "template"},
}

// subdomains are kinds of which the name must be one.
var subdomains = []string{
	"ConfigMap", "Secret", "ServiceAccount", "Pod", "PodTemplate", "PersistentVolumeClaim",
	"DaemonSet.apps", "Deployment.apps", "StatefulSet.apps", "NetworkPolicy.networking.k8s.io", "PodDisruptionBudget.policy",
}

func nameDefects(obj *unstructured.Unstructured) []Defect {
	name := obj.GetName()
	var why []string
	switch {
	case len(name) > utilvalidation.DNS1123SubdomainMaxLength:
		why = []string{fmt.Sprintf("has %d characters, and the longest has %d", len(name), utilvalidation.DNS1123SubdomainMaxLength)}
	case slices.Contains(subdomains, obj.GroupVersionKind().GroupKind().String()):
		why = utilvalidation.IsDNS1123Subdomain(name)
	default:
		why = content.IsPathSegmentName(name)
	}
	out := defects("metadata.name", why)
	if namespace := obj.GetNamespace(); namespace != "" {
		out = append(out, defects("metadata.namespace", utilvalidation.IsDNS1123Label(namespace))...)
	}
	return out
}

func defects(field string, why []string) []Defect {
	var out []Defect
	for _, w := range why {
		message, _, _ := strings.Cut(w, " (e.g.")
		out = append(out, Defect{Field: field, Message: message})
	}
	return out
}

// metadataDefects looks at labels and annotations. Those that are no text are
// refused when the file is read.
func metadataDefects(object map[string]any, where string) []Defect {
	at := field.NewPath(where)
	var found field.ErrorList
	if labels, _, err := unstructured.NestedStringMap(object, "metadata", "labels"); err == nil {
		found = append(found, metavalidation.ValidateLabels(labels, at.Child("labels"))...)
	}
	if annotations, _, err := unstructured.NestedStringMap(object, "metadata", "annotations"); err == nil {
		found = append(found, validation.ValidateAnnotations(annotations, at.Child("annotations"))...)
	}
	var out []Defect
	for _, e := range found {
		message, _, _ := strings.Cut(e.Detail, " (e.g.")
		if e.Type == field.ErrorTypeTooLong {
			message = fmt.Sprintf("are larger than %d KiB together", validation.TotalAnnotationSizeLimitB>>10)
		} else {
			message = fmt.Sprintf("%q: %s", e.BadValue, message) // a key, or the value of a label
		}
		out = append(out, Defect{Field: e.Field, Message: message})
	}
	slices.SortFunc(out, func(a, b Defect) int { return strings.Compare(a.Field+a.Message, b.Field+b.Message) })
	return out
}

// A keyed list is one of which each entry is known by some of its fields.
type keyed struct {
	list string
	keys []string
}

var (
	podLists = []keyed{
		{"volumes", []string{"name"}},
		{"imagePullSecrets", []string{"name"}},
		{"hostAliases", []string{"ip"}},
		{"topologySpreadConstraints", []string{"topologyKey", "whenUnsatisfiable"}},
		{"resourceClaims", []string{"name"}},
		{"schedulingGates", []string{"name"}},
	}
	containerLists = []keyed{
		{"env", []string{"name"}},
		{"ports", []string{"containerPort", "protocol"}},
		{"volumeMounts", []string{"mountPath"}},
		{"volumeDevices", []string{"devicePath"}},
	}
)

func podDefects(pod map[string]any, where string) []Defect {
	var out []Defect
	for _, kind := range []string{"initContainers", "containers"} {
		out = append(out, listed(pod, where, kind, "name")...)
		for i, c := range entries(pod, kind) {
			for _, l := range containerLists {
				out = append(out, listed(c, fmt.Sprintf("%s.%s[%d]", where, kind, i), l.list, l.keys...)...)
			}
		}
	}
	for _, l := range podLists {
		out = append(out, listed(pod, where, l.list, l.keys...)...)
	}
	return out
}

// listed finds entries of a list that have the same keys as an earlier one.
func listed(object map[string]any, where, list string, keys ...string) []Defect {
	var out []Defect
	first := map[string]int{}
	for i, entry := range entries(object, list) {
		var words []string
		for _, key := range keys {
			value := entry[key]
			if value == nil && key == "protocol" {
				value = "TCP"
			}
			words = append(words, fmt.Sprintf("%s %v", key, value))
		}
		key := strings.Join(words, ", ")
		if before, twice := first[key]; twice {
			out = append(out, Defect{Field: fmt.Sprintf("%s.%s[%d]", where, list, i), Message: fmt.Sprintf("has the same %s as [%d]", key, before)})
			continue
		}
		first[key] = i
	}
	return out
}

// entries are those of a list that are maps; others keep their place.
func entries(object map[string]any, list string) []map[string]any {
	values, _ := object[list].([]any)
	out := make([]map[string]any, len(values))
	for i, v := range values {
		out[i], _ = v.(map[string]any)
	}
	return out
}
