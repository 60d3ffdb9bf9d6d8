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
	place
}

// place is where in the tree something is. The line is 0 when it is not known.
type place struct {
	file string
	line int
}

// generates notes a generator that makes an object of its own, rather than
// adding to one.
func (g *graph) generates(kind string, at place, args types.GeneratorArgs) {
	if b := types.NewGenerationBehavior(args.Behavior); b == types.BehaviorMerge || b == types.BehaviorReplace {
		return
	}
	g.generated = append(g.generated, definition{sourceOf("v1", kind, args.Namespace, args.Name), at})
}

// sourceOf levels the names that kustomize has for no namespace.
func sourceOf(apiVersion, kind, namespace, name string) source {
	if namespace == resid.DefaultNamespace || namespace == resid.TotallyNotANamespace {
		namespace = ""
	}
	return source{apiVersion, kind, namespace, name}
}

// definitions finds where each object is defined. Kustomize can note the files
// itself, in annotations, but that makes a build of 500 objects four times as slow.
// An object that several files define is in none: which of them became which object
// is kustomize's to know.
func (g *graph) definitions() map[source]place {
	all := slices.Clone(g.generated)
	for _, file := range g.files {
		docs, _ := g.documents(file) // kustomize has read it
		for _, d := range docs {
			all = append(all, definition{sourceOf(d.apiVersion, d.kind, d.namespace, d.name), place{file, d.line}})
		}
	}
	places := make(map[source]place, len(all))
	for _, d := range all {
		if at, ok := places[d.source]; ok && at.file != d.file {
			places[d.source] = place{}
			continue
		}
		places[d.source] = d.place
	}
	return places
}
