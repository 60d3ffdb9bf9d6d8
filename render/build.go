// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// build is one build, inside the fence.
func build(ctx context.Context, j job) (built, error) {
	fsys := newFilesystem(ctx, j)
	out, err := run(fsys, j.root)
	if err != nil {
		return built{}, fsys.redacted(err)
	}
	return built{output: out, inputs: fsys.inputs}, nil
}

func run(fsys *filesystem, root string) (Output, error) {
	g, err := explore(fsys, root)
	if err != nil {
		return Output{}, err
	}
	resources, err := g.runKustomize(root)
	if err != nil {
		return Output{}, g.explain(root, err)
	}
	return g.output(resources)
}

// previousIDs are the annotations that hold what an object was called before.
// Kustomize drops them at the end of a build.
var previousIDs = []string{
	"internal.config.kubernetes.io/previousNames",
	"internal.config.kubernetes.io/previousNamespaces",
	"internal.config.kubernetes.io/previousKinds",
}

// runKustomize builds root and leaves the annotations previousIDs in place.
// Nobody but this package runs kustomize, and one build runs at a time, so its
// list of annotations to drop may be shortened meanwhile. During the build the
// list also says what a generator that merges keeps of the object it merges
// into; objects fresh from a generator have no previous IDs, so it makes no
// difference there.
func (g *graph) runKustomize(root string) (resmap.ResMap, error) {
	all := kresource.BuildAnnotations
	kresource.BuildAnnotations = slices.DeleteFunc(slices.Clone(all), func(a string) bool {
		return slices.Contains(previousIDs, a)
	})
	defer func() {
		kresource.BuildAnnotations = all
		if g.schema { // it would shape every later build
			openapi.ResetOpenAPI()
		}
	}()
	return krusty.MakeKustomizer(&krusty.Options{
		Reorder:          krusty.ReorderOptionNone,
		LoadRestrictions: types.LoadRestrictionsNone, // the tree is the restriction
		PluginConfig:     types.DisabledPluginConfig(),
	}).Run(g.fsys, mounted(root))
}

// output turns kustomize's objects into ours.
func (g *graph) output(resources resmap.ResMap) (Output, error) {
	out := Output{encrypted: g.fsys.secrets()}
	places, hider := g.definitions(), g.hider()
	for _, r := range resources.Resources() {
		id := r.OrgId()
		at := places[sourceOf(id.ApiVersion(), id.Kind, id.Namespace, id.Name)]
		o := Object{OriginalName: id.Name, File: at.file, Line: at.line}
		if err := o.fill(r); err != nil {
			return Output{}, o.unfit(r, err)
		}
		o.Hidden = hider.hidden(o)
		if o.GroupVersionKind().Group == PolicyGroup {
			out.Policies = append(out.Policies, o)
		} else {
			out.Objects = append(out.Objects, o)
		}
	}
	for _, list := range [][]Object{out.Objects, out.Policies} {
		slices.SortStableFunc(list, byID)
		for i := range list[min(1, len(list)):] {
			if a, b := list[i], list[i+1]; byID(a, b) == 0 {
				return Output{}, fmt.Errorf("%s: is defined twice, in %s and %s", a.name(), known(a.File), known(b.File))
			}
		}
	}
	return out, nil
}

// fill takes the content of r, without what was only there for us.
func (o *Object) fill(r *kresource.Resource) error {
	content, err := mapping(r.YNode())
	if err != nil {
		return err
	}
	o.Unstructured = &unstructured.Unstructured{Object: content}
	dropPreviousIDs(content)
	switch {
	case o.GetAPIVersion() == "":
		return errors.New("has no apiVersion")
	case o.GetKind() == "":
		return errors.New("has no kind")
	case o.GetName() == "":
		return errors.New("has no metadata.name")
	default:
		return checkTexts(content)
	}
}

// unfit is an error about r, which may lack what names it.
func (o *Object) unfit(r *kresource.Resource, err error) error {
	id := join(r.GetKind(), r.GetNamespace(), r.GetName())
	if o.File == "" {
		return fmt.Errorf("%s: %w", id, err)
	}
	if o.Line == 0 {
		return fmt.Errorf("%s: %s: %w", o.File, id, err)
	}
	return fmt.Errorf("%s: line %d: %s: %w", o.File, o.Line, id, err)
}

func dropPreviousIDs(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return
	}
	for _, a := range previousIDs {
		delete(annotations, a)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

func byID(a, b Object) int {
	return cmp.Or(
		cmp.Compare(a.GroupVersionKind().Group, b.GroupVersionKind().Group),
		cmp.Compare(a.GetKind(), b.GetKind()),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}

// name is how output calls an object: Kind/namespace/name.
func (o Object) name() string { return join(o.GetKind(), o.GetNamespace(), o.GetName()) }

func join(kind, namespace, name string) string {
	if namespace == "" {
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}

func known(file string) string { return cmp.Or(file, "an unknown file") }
