// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	looking  = []string{"get", "list", "watch"}
	changing = []string{"create", "patch", "delete"}
)

// fleetRights are a ClusterRole with what it takes to apply and prune the objects
// of a fleet, and its binding to the agent.
func fleetRights(namespace string, fleet []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	named := metav1.ObjectMeta{Name: defaultName + "-fleet", Labels: nameLabel}
	role := rbacv1.ClusterRole{ObjectMeta: named, Rules: rules(fleet)}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	binding := rbacv1.ClusterRoleBinding{
		ObjectMeta: named,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: named.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: defaultName, Namespace: namespace}},
	}
	binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
	var objects []*unstructured.Unstructured
	for _, o := range []any{&role, &binding} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{Object: fields}
		obj.SetCreationTimestamp(metav1.Time{})
		objects = append(objects, obj)
	}
	return objects, nil
}

// rules allow what applying and pruning take: a rule for each API group, and for
// roles and bindings what roleRules say.
func rules(fleet []*unstructured.Unstructured) []rbacv1.PolicyRule {
	resources := map[string]sets.Set[string]{}
	plurals := definedPlurals(fleet)
	for _, o := range fleet {
		r := resourceOf(o.GroupVersionKind(), plurals)
		insert(resources, r.Group, r.Resource)
	}
	var all []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		verbs := slices.Concat(looking, changing)
		if group == rbacv1.GroupName {
			verbs = looking
		}
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: sets.List(resources[group]), Verbs: verbs})
	}
	return append(all, roleRules(fleet)...)
}

// roleRules allow to change roles and bindings by name, because who may write any
// role may do anything; to give the fleet's roles rights that the agent has not
// itself; and to bind the roles that the fleet's bindings are for, wherever these
// come from.
func roleRules(fleet []*unstructured.Unstructured) []rbacv1.PolicyRule {
	written, bound := map[string]sets.Set[string]{}, map[string]sets.Set[string]{}
	for _, o := range fleet {
		if o.GroupVersionKind().Group != rbacv1.GroupName {
			continue
		}
		insert(written, plural(o.GetKind()), o.GetName())
		if kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind"); kind != "" {
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			insert(bound, plural(kind), name)
		}
	}
	var all []rbacv1.PolicyRule
	for _, resource := range slices.Sorted(maps.Keys(written)) {
		verbs := changing
		if resource == "roles" || resource == "clusterroles" {
			verbs = append(slices.Clone(changing), "escalate")
		}
		all = append(all, roleRule(resource, written, verbs))
	}
	for _, resource := range slices.Sorted(maps.Keys(bound)) {
		all = append(all, roleRule(resource, bound, []string{"bind"}))
	}
	return all
}

func roleRule(resource string, names map[string]sets.Set[string], verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{resource}, ResourceNames: sets.List(names[resource]), Verbs: verbs}
}

// plural is the resource of one of the four kinds that have to do with roles.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

func insert(to map[string]sets.Set[string], key, item string) {
	if to[key] == nil {
		to[key] = sets.New[string]()
	}
	to[key].Insert(item)
}

// definedPlurals are the resources of the kinds that the fleet itself defines.
func definedPlurals(fleet []*unstructured.Unstructured) map[schema.GroupKind]string {
	plurals := map[schema.GroupKind]string{}
	for _, o := range fleet {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		plurals[schema.GroupKind{Group: group, Kind: kind}], _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
	}
	return plurals
}

// resourceOf is where the API server has a kind. Without asking it, that is what
// the fleet's own definition says, or the plural as English has it.
func resourceOf(kind schema.GroupVersionKind, plurals map[schema.GroupKind]string) schema.GroupResource {
	if plural, ok := plurals[kind.GroupKind()]; ok {
		return schema.GroupResource{Group: kind.Group, Resource: plural}
	}
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return guess.GroupResource()
}

// Guessed are the kinds of a fleet, sorted, whose place at the API server is not
// known for sure: those that neither Kubernetes nor the fleet defines.
func Guessed(fleet []*unstructured.Unstructured) []string {
	guessed := sets.New[string]()
	plurals := definedPlurals(fleet)
	for _, o := range fleet {
		kind := o.GroupVersionKind().GroupKind()
		_, defined := plurals[kind]
		if !defined && strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io") {
			guessed.Insert(kind.String())
		}
	}
	return sets.List(guessed)
}
