// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

// source is what an object is called where it is defined.
type source struct{ apiVersion, kind, namespace, name string }

// definition is one place that defines an object.
type definition struct {
	source
	file string
}

// generates notes a generator that makes an object of its own, rather than
// adding to one.
func (g *graph) generates(kind, file string, args types.GeneratorArgs) {
	if b := types.NewGenerationBehavior(args.Behavior); b == types.BehaviorMerge || b == types.BehaviorReplace {
		return
	}
	g.generated = append(g.generated, definition{sourceOf("v1", kind, args.Namespace, args.Name), file})
}

// sourceOf levels the names that kustomize has for no namespace.
func sourceOf(apiVersion, kind, namespace, name string) source {
	if namespace == resid.DefaultNamespace || namespace == resid.TotallyNotANamespace {
		namespace = ""
	}
	return source{apiVersion, kind, namespace, name}
}

// definitions finds the file of each object. Kustomize can note them itself, in
// annotations, but that makes a build of 500 objects four times as slow. An
// object that several files define is in none: which of them became which
// object is kustomize's to know.
func (g *graph) definitions() map[source]string {
	all := slices.Clone(g.generated)
	for _, file := range g.files {
		docs, _ := g.documents(file) // kustomize has read it
		for _, d := range docs {
			all = append(all, definition{sourceOf(d.apiVersion, d.kind, d.namespace, d.name), file})
		}
	}
	files := make(map[source]string, len(all))
	for _, d := range all {
		if file, ok := files[d.source]; ok && file != d.file {
			files[d.source] = ""
			continue
		}
		files[d.source] = d.file
	}
	return files
}
