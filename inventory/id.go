// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/object"
)

// ID names an object whatever its API version: group, kind, namespace, name.
type ID = object.ObjMetadata

// IDOf returns the ID of an object.
func IDOf(obj *unstructured.Unstructured) ID {
	return object.UnstructuredToObjMetadata(obj)
}

// Compare orders IDs as people read them: kind, namespace, name, then group.
func Compare(a, b ID) int {
	return cmp.Or(
		strings.Compare(a.GroupKind.Kind, b.GroupKind.Kind),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.GroupKind.Group, b.GroupKind.Group),
	)
}

// Format writes an ID as it appears in all output: DaemonSet/kube-system/cni,
// Namespace/agents. Kinds that Kubernetes does not serve by itself carry their
// group, so that no two IDs read alike: Widget.example.com/agents/blue.
func Format(id ID) string {
	kind := id.GroupKind.Kind
	if group, known := groupByKind[kind]; !known || group != id.GroupKind.Group {
		kind += "." + id.GroupKind.Group
	}
	if id.Namespace == "" {
		return kind + "/" + id.Name
	}
	return kind + "/" + id.Namespace + "/" + id.Name
}

// ParseFormat reads what [Format] wrote.
func ParseFormat(s string) (ID, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return ID{}, fmt.Errorf("object %q: want Kind/name or Kind/namespace/name", s)
	}
	for _, part := range parts {
		if part == "" {
			return ID{}, fmt.Errorf("object %q: a part of it is empty", s)
		}
	}
	id := ID{Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		id.Namespace = parts[1]
	}
	kind, group, qualified := strings.Cut(parts[0], ".")
	if !qualified {
		known := false
		if group, known = groupByKind[kind]; !known {
			return ID{}, fmt.Errorf("object %q: kind %s needs its group, as in %s.example.com", s, kind, kind)
		}
	}
	if kind == "" {
		return ID{}, fmt.Errorf("object %q: a part of it is empty", s)
	}
	id.GroupKind = schema.GroupKind{Group: group, Kind: kind}
	return id, nil
}

// Storable says why an ID cannot be kept in the inventory's format, or nil.
// The format separates its fields by underscores, so a name that holds one
// (RBAC allows it) would not be read back as the same object.
func Storable(id ID) error {
	key := id.String()
	if len(key) > maxKeyLength {
		return fmt.Errorf("its inventory key has %d characters, the limit is %d", len(key), maxKeyLength)
	}
	if back, err := object.ParseObjMetadata(key); err != nil || back != id {
		return fmt.Errorf("its name %q cannot be kept in an inventory: it holds an underscore", id.Name)
	}
	return nil
}

// maxKeyLength is the longest key that a ConfigMap accepts.
const maxKeyLength = 253

// groupByKind holds the kinds that read well without their group.
var groupByKind = map[string]string{
	"ConfigMap":                        "",
	"Endpoints":                        "",
	"LimitRange":                       "",
	"Namespace":                        "",
	"Node":                             "",
	"PersistentVolume":                 "",
	"PersistentVolumeClaim":            "",
	"Pod":                              "",
	"PodTemplate":                      "",
	"ReplicationController":            "",
	"ResourceQuota":                    "",
	"Secret":                           "",
	"Service":                          "",
	"ServiceAccount":                   "",
	"MutatingWebhookConfiguration":     "admissionregistration.k8s.io",
	"ValidatingWebhookConfiguration":   "admissionregistration.k8s.io",
	"ValidatingAdmissionPolicy":        "admissionregistration.k8s.io",
	"ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io",
	"CustomResourceDefinition":         "apiextensions.k8s.io",
	"APIService":                       "apiregistration.k8s.io",
	"ControllerRevision":               "apps",
	"DaemonSet":                        "apps",
	"Deployment":                       "apps",
	"ReplicaSet":                       "apps",
	"StatefulSet":                      "apps",
	"HorizontalPodAutoscaler":          "autoscaling",
	"CronJob":                          "batch",
	"Job":                              "batch",
	"Lease":                            "coordination.k8s.io",
	"EndpointSlice":                    "discovery.k8s.io",
	"FlowSchema":                       "flowcontrol.apiserver.k8s.io",
	"PriorityLevelConfiguration":       "flowcontrol.apiserver.k8s.io",
	"Ingress":                          "networking.k8s.io",
	"IngressClass":                     "networking.k8s.io",
	"NetworkPolicy":                    "networking.k8s.io",
	"RuntimeClass":                     "node.k8s.io",
	"PodDisruptionBudget":              "policy",
	"ClusterRole":                      "rbac.authorization.k8s.io",
	"ClusterRoleBinding":               "rbac.authorization.k8s.io",
	"Role":                             "rbac.authorization.k8s.io",
	"RoleBinding":                      "rbac.authorization.k8s.io",
	"PriorityClass":                    "scheduling.k8s.io",
	"CSIDriver":                        "storage.k8s.io",
	"CSINode":                          "storage.k8s.io",
	"StorageClass":                     "storage.k8s.io",
	"VolumeAttachment":                 "storage.k8s.io",
}
