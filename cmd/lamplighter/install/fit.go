// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Defaults of the command's flags, by which the manifests are written.
const (
	defaultName      = "lamplighter"
	defaultNamespace = "lamplighter-system"
)

var nameLabel = map[string]string{"app.kubernetes.io/name": defaultName}

// fit makes an object of the manifests one of this instance.
func (o Options) fit(obj *unstructured.Unstructured) {
	switch obj.GetKind() {
	case "Namespace":
		obj.SetName(o.Instance.Namespace)
		if o.Instance.Namespace != defaultNamespace {
			obj.SetLabels(nil) // others may have pods in it
		}
		return
	case "Deployment":
		o.fitContainer(obj)
	}
	obj.Object = o.renamed(obj.Object, "").(map[string]any)
	if obj.GetNamespace() == "" {
		obj.SetName(o.clusterName(obj.GetName()))
	}
	if obj.GetKind() == "ClusterRoleBinding" {
		role, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name")
		_ = unstructured.SetNestedField(obj.Object, o.clusterName(role), "roleRef", "name")
	}
}

// clusterName tells what belongs to no namespace from that of an instance in
// another namespace.
func (o Options) clusterName(name string) string {
	if o.Instance.Namespace == defaultNamespace {
		return name
	}
	return o.Instance.Namespace + "-" + name
}

// renamed replaces the default name of an instance, and names that begin with
// it, wherever they are; those of containers and images are the program's.
func (o Options) renamed(value any, key string) any {
	switch v := value.(type) {
	case map[string]any:
		for k, field := range v {
			if k != "containers" && k != "namespace" {
				v[k] = o.renamed(field, k)
			}
		}
	case []any:
		for i, item := range v {
			v[i] = o.renamed(item, key)
		}
	case string:
		if rest, ok := strings.CutPrefix(v, defaultName); ok && (rest == "" || rest[0] == '-') {
			return o.Instance.Name + rest
		}
	}
	return value
}

// fitContainer gives the agent its image and its flags.
func (o Options) fitContainer(deployment *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	agent := containers[0].(map[string]any)
	agent["image"] = o.Image
	args := []any{"agent"}
	for _, arg := range o.flags() {
		args = append(args, arg)
	}
	for _, arg := range agent["args"].([]any)[1:] {
		if text := arg.(string); !strings.HasPrefix(text, "--git=") && !strings.HasPrefix(text, "--ref=") && !strings.HasPrefix(text, "--path=") {
			args = append(args, arg)
		}
	}
	agent["args"] = args
	_ = unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

func (o Options) flags() []string {
	flags := []string{"--git=" + o.Git, "--ref=" + o.Ref, "--path=" + o.Path}
	if o.Instance.Namespace != defaultNamespace {
		flags = append(flags, "--namespace="+o.Instance.Namespace)
	}
	if o.Instance.Name != defaultName {
		flags = append(flags, "--name="+o.Instance.Name)
	}
	return flags
}
