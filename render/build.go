// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// build is one build, inside the fence.
func build(ctx context.Context, tree fs.FS, root string) (Output, error) {
	fsys := newFilesystem(ctx, tree)
	g, err := explore(fsys, root)
	if err != nil {
		return Output{}, err
	}
	resources, err := runKustomize(fsys, root)
	if err != nil {
		return Output{}, g.explain(root, err)
	}
	return g.output(root, resources)
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
func runKustomize(fsys *filesystem, root string) (resmap.ResMap, error) {
	all := kresource.BuildAnnotations
	kresource.BuildAnnotations = slices.DeleteFunc(slices.Clone(all), func(a string) bool {
		return slices.Contains(previousIDs, a)
	})
	defer func() {
		kresource.BuildAnnotations = all
		openapi.ResetOpenAPI()
	}()
	return krusty.MakeKustomizer(&krusty.Options{
		Reorder:          krusty.ReorderOptionNone,
		LoadRestrictions: types.LoadRestrictionsNone, // the tree is the restriction
		PluginConfig:     types.DisabledPluginConfig(),
	}).Run(fsys, mounted(root))
}

// output turns kustomize's objects into ours.
func (g *graph) output(root string, resources resmap.ResMap) (Output, error) {
	var out Output
	for _, r := range resources.Resources() {
		o, err := g.object(root, r)
		if err != nil {
			return Output{}, err
		}
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

func (g *graph) object(root string, r *kresource.Resource) (Object, error) {
	o := Object{OriginalName: r.OrgId().Name, Unstructured: &unstructured.Unstructured{}}
	origin, err := r.GetOrigin()
	if err == nil && origin != nil {
		o.File = path.Join(root, cmp.Or(origin.Path, origin.ConfiguredIn))
	}
	o.Object, err = mapping(r.YNode())
	if err != nil {
		return Object{}, o.unfit(r, err)
	}
	g.dropAnnotations(o)
	switch {
	case o.GetAPIVersion() == "":
		err = errors.New("has no apiVersion")
	case o.GetKind() == "":
		err = errors.New("has no kind")
	case o.GetName() == "":
		err = errors.New("has no metadata.name")
	default:
		err = checkTexts(o.Object)
	}
	if err != nil {
		return Object{}, o.unfit(r, err)
	}
	return o, nil
}

func (o Object) unfit(r *kresource.Resource, err error) error {
	id := join(r.GetKind(), r.GetNamespace(), r.GetName())
	if o.File == "" {
		return fmt.Errorf("%s: %w", id, err)
	}
	return fmt.Errorf("%s: %s: %w", o.File, id, err)
}

const originAnnotation = "config.kubernetes.io/origin"

// dropAnnotations removes what was only there for us.
func (g *graph) dropAnnotations(o Object) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return
	}
	for _, a := range previousIDs {
		delete(annotations, a)
	}
	if !g.origins {
		delete(annotations, originAnnotation)
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
