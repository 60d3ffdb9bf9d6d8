// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// renderedTemplates are digests of the templates that the commit in force has, of
// the DaemonSets that go back or may.
func renderedTemplates(obs Observation) map[types.NamespacedName]string {
	fleet := obs.Fleet
	if !obs.inForce() {
		fleet = obs.InForce
	}
	if fleet == nil {
		return nil
	}
	out := map[types.NamespacedName]string{}
	for _, o := range fleet.Objects {
		if o.GroupVersionKind().GroupKind() != daemonSetKind {
			continue
		}
		name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if mayRevert(obs, name) || obs.State.Ledger.Reversal(name) != nil {
			if digest := templateDigest(o); digest != "" {
				out[name] = digest
			}
		}
	}
	return out
}

func mayRevert(obs Observation, name types.NamespacedName) bool {
	p, governed := obs.Policies.For(name)
	return governed && p.OnFailure == policy.Revert
}

// templateDigest is "" for an object without a template that could be read.
func templateDigest(o *unstructured.Unstructured) string {
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		return ""
	}
	digest, err := inventory.ContentHash(&unstructured.Unstructured{Object: template})
	if err != nil {
		return ""
	}
	return digest
}

// reversals are those that are in force for DaemonSets of the fleet: Git has the
// template that is marked bad.
func reversals(obs Observation) map[inventory.ID]rollout.Reversal {
	out := map[inventory.ID]rollout.Reversal{}
	templates := renderedTemplates(obs)
	for name, digest := range templates {
		if r := obs.State.Ledger.Reversal(name); r != nil && r.Marks(digest) {
			out[daemonSetID(name)] = *r
		}
	}
	return out
}

// revertedFleet are the objects of a fleet as they are to be: with the template of
// the revision that a DaemonSet goes back to. Obs learns of which that is known.
func (r *Reconciler) revertedFleet(ctx context.Context, obs *Observation) []*unstructured.Unstructured {
	marked := reversals(*obs)
	substitutes := map[*unstructured.Unstructured]substitute{}
	obs.Reverted = map[inventory.ID]error{}
	objects := make([]*unstructured.Unstructured, len(obs.Fleet.Objects))
	for i, o := range obs.Fleet.Objects {
		objects[i] = o
		id := inventory.IDOf(o)
		mark, ok := marked[id]
		if !ok {
			continue
		}
		s, known := r.substitutes[o]
		if !known || s.revision != mark.To {
			var err error
			if s, err = r.substitute(ctx, o, mark.To); err != nil {
				obs.Reverted[id] = err
				continue
			}
		}
		obs.Reverted[id] = nil
		substitutes[o], objects[i] = s, s.object
	}
	r.substitutes = substitutes
	return objects
}

// goingBack are the objects of a fleet that is kept out of force with the DaemonSets
// that go back as the fleet in force has them. It answers false if there are none.
func (r *Reconciler) goingBack(ctx context.Context, obs *Observation, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, bool) {
	marked := reversals(*obs)
	if len(marked) == 0 {
		return nil, false
	}
	in := *obs
	in.Fleet, in.Faults = obs.InForce, nil
	back := r.revertedFleet(ctx, &in)
	obs.Reverted = in.Reverted
	out := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		_, goes := marked[inventory.IDOf(o)]
		return goes
	})
	for _, o := range back {
		if _, goes := marked[inventory.IDOf(o)]; goes {
			out = append(out, o)
		}
	}
	return out, true
}

// A substitute is a rendered DaemonSet with the template of one of its revisions.
type substitute struct {
	revision string
	object   *unstructured.Unstructured
}

func (r *Reconciler) substitute(ctx context.Context, o *unstructured.Unstructured, revision string) (substitute, error) {
	template, err := r.opts.Cluster.Template(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, revision)
	if err != nil {
		return substitute{}, err
	}
	object := o.DeepCopy()
	if err := unstructured.SetNestedMap(object.Object, template, "spec", "template"); err != nil {
		return substitute{}, fmt.Errorf("the template of revision %s: %w", revision, err)
	}
	return substitute{revision, object}, nil
}

// wrongReversal says why what a DaemonSet would become is not what it was at the
// revision that it goes back to; "" when it is, or nothing is known against it.
func wrongReversal(obs Observation, c inventory.Change) string {
	err, compared := obs.Reverted[c.ID]
	switch {
	case !compared:
		return "its template is not compared"
	case err != nil:
		return err.Error()
	case c.Kind == inventory.Replace:
		return "it would have to be re-created"
	case c.Merged == nil:
		return ""
	}
	is, found, err := unstructured.NestedMap(c.Merged.Object, "spec", "template")
	want, _, errWant := unstructured.NestedMap(c.Object.Object, "spec", "template")
	if err != nil || errWant != nil || !found {
		return "" // the API server will say
	}
	for _, template := range []map[string]any{is, want} {
		unstructured.RemoveNestedField(template, "metadata", "creationTimestamp")
	}
	if !equality.Semantic.DeepEqual(is, want) {
		return "somebody else holds fields of its template, so it would not become what it was"
	}
	return ""
}

// marks say of the DaemonSets that go back why they are not as Git says.
func marks(obs Observation) map[inventory.ID]string {
	out := map[inventory.ID]string{}
	for id, r := range reversals(obs) {
		out[id] = r.String()
	}
	return out
}
