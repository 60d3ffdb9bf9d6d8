// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
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

// rediscovery is how long the API server is not asked again which kinds it
// serves, after it was asked for one that it does not.
const rediscovery = 5 * time.Second

// locate finds where a kind is kept: at the given version, or at the preferred
// one if it is empty. It returns nil if the API server does not serve it. A
// group that cannot be discovered just now is an error: it is not absent.
func (c *Cluster) locate(kind schema.GroupKind, version string) (*meta.RESTMapping, error) {
	var versions []string
	if version != "" {
		versions = append(versions, version)
	}
	mapping, err := c.mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) && c.rediscover() {
		mapping, err = c.mapper.RESTMapping(kind, versions...)
	}
	if meta.IsNoMatchError(err) {
		return nil, c.undiscovered(kind.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("which kinds the API server serves: %w", err)
	}
	return mapping, nil
}

// rediscover forgets which kinds are served, unless it has just done so.
func (c *Cluster) rediscover() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over(c.rediscovery) {
		return false
	}
	c.rediscovery = c.deadline(rediscovery)
	c.mapper.Reset()
	return true
}

// undiscovered is an error if the kinds of a group are not known, as when the
// server behind an APIService is down.
func (c *Cluster) undiscovered(group string) error {
	_, _, err := c.discovery.ServerGroupsAndResources()
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return fmt.Errorf("which kinds the API server serves: %w", err)
	}
	for gv, why := range failed {
		if gv.Group == group {
			return fmt.Errorf("which kinds of %s the API server serves: %w", gv, why)
		}
	}
	return nil
}

// target finds where an object is kept.
func (c *Cluster) target(obj *unstructured.Unstructured) (target, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := c.locate(gvk.GroupKind(), gvk.Version)
	return target{id: inventory.IDOf(obj), object: obj, mapping: mapping}, err
}

// targetOf finds where an object of which only the ID is known is kept.
func (c *Cluster) targetOf(id inventory.ID) (target, error) {
	mapping, err := c.locate(id.GroupKind, "")
	return target{id: id, mapping: mapping}, err
}
