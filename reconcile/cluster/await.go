// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// Waits for something to come about start short and grow.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// await waits until what depends on an applied object can be applied: a
// definition is served, a namespace is not on its way out. Other kinds are
// ready as soon as they exist.
func (c *Cluster) await(ctx context.Context, d inventory.Decision) inventory.Outcome {
	var usable func(*unstructured.Unstructured) (bool, string)
	switch d.ID.GroupKind {
	case definitionKind:
		usable = c.served
	case namespaceKind:
		usable = active
	default:
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultUnchanged}
	}
	t, err := c.target(d.Object)
	if err != nil {
		return failure(d.ID, err)
	}
	why := ""
	err = until(ctx, c.opts.DefinitionTimeout, func(ctx context.Context) (bool, error) {
		var obj *unstructured.Unstructured
		err := c.try(ctx, func(ctx context.Context) (err error) {
			obj, err = c.resource(t).Get(ctx, d.ID.Name, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return false, err
		}
		ok, reason := usable(obj)
		why = reason
		return ok, nil
	})
	if err != nil {
		if why != "" {
			err = fmt.Errorf("not usable after %s: %s", c.opts.DefinitionTimeout, why)
		}
		return failure(d.ID, err)
	}
	if d.ID.GroupKind == definitionKind {
		c.mapper.Reset() // it serves a kind that it did not when we asked
	}
	return inventory.Outcome{ID: d.ID, Result: inventory.ResultUnchanged}
}

// served reports whether a definition's kind can be used in every version that
// it has. The API server lists a kind a little later than it is established.
func (c *Cluster) served(definition *unstructured.Unstructured) (bool, string) {
	if ok, why := health.Established(definition); !ok {
		return false, why
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return false, err.Error()
	}
	kind := inventory.Defines(definition)
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		_, err := c.mapper.RESTMapping(kind, fmt.Sprint(version["name"]))
		if meta.IsNoMatchError(err) {
			c.mapper.Reset()
			return false, fmt.Sprintf("the API server does not list %s/%s yet", kind.Group, version["name"])
		}
		if err != nil {
			return false, err.Error()
		}
	}
	return true, ""
}

func active(namespace *unstructured.Unstructured) (bool, string) {
	phase, _, err := unstructured.NestedString(namespace.Object, "status", "phase")
	if err != nil || phase != "Active" {
		return false, "its phase is " + phase
	}
	return true, ""
}

// until asks again and again until the answer is yes, an error, or timeout has
// passed.
func until(ctx context.Context, timeout time.Duration, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for wait := firstLook; ; wait = min(lastLook, 2*wait) {
		yes, err := ask(ctx)
		if yes || err != nil {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}
