// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"lamplighter.dev/inventory"
)

var (
	daemonSetKind  = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	secretKind     = schema.GroupKind{Kind: "Secret"}
)

// target is an object and where the API server keeps it.
type target struct {
	id      inventory.ID
	object  *unstructured.Unstructured // nil if only the ID is known
	mapping *meta.RESTMapping          // nil if the kind is not served
}

// namespaced reports whether objects of the kind live in namespaces.
func (t target) namespaced() bool { return t.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// namespace is where the object lives: nowhere, for a kind that is not
// namespaced, whatever a kustomization's namespace field has put on it.
func (t target) namespace() string {
	if !t.namespaced() {
		return ""
	}
	return t.id.Namespace
}

func (c *Cluster) resource(t target) dynamic.ResourceInterface {
	return c.dynamic.Resource(t.mapping.Resource).Namespace(t.namespace())
}

func (c *Cluster) metadataOf(t target) metadata.ResourceInterface {
	return c.metadata.Resource(t.mapping.Resource).Namespace(t.namespace())
}

// atlas maps kinds to resources. It asks the API server again at most once.
type atlas struct {
	mapper    meta.ResettableRESTMapper
	refreshed bool
}

// locate finds where a kind is kept: at the given version, or at the preferred
// one if it is empty. It returns nil if the API server does not serve it.
func (a *atlas) locate(kind schema.GroupKind, version string) (*meta.RESTMapping, error) {
	var versions []string
	if version != "" {
		versions = append(versions, version)
	}
	mapping, err := a.mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) && !a.refreshed {
		a.refreshed = true
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind, versions...)
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("which kinds the API server serves: %w", err)
	}
	return mapping, nil
}

// target finds where an object is kept.
func (a *atlas) target(obj *unstructured.Unstructured) (target, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := a.locate(gvk.GroupKind(), gvk.Version)
	return target{id: inventory.IDOf(obj), object: obj, mapping: mapping}, err
}

// targetOf finds where an object of which only the ID is known is kept.
func (a *atlas) targetOf(id inventory.ID) (target, error) {
	mapping, err := a.locate(id.GroupKind, "")
	return target{id: id, mapping: mapping}, err
}
