// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// role is what a kustomization does with the thing it refers to.
type role string

const (
	resource  role = "resource"  // a manifest or a base
	component role = "component" // a base that changes its includer
	manifest  role = "manifest"  // a YAML file: patch, configuration, schema
	payload   role = "payload"   // a file whose bytes are data
	secret    role = "secret"    // a payload that no error may show
)

func (r role) isBase() bool { return r == resource || r == component }

// reference is one place where a kustomization names a path.
type reference struct {
	field  string // as in patches[0].path
	target string
	role   role
}

// references lists every path that kustomize will read for k, whatever field
// it comes from: a path that is missing here is a path that is not fenced.
func (g *graph) references(file string, k *types.Kustomization) ([]reference, error) {
	var refs referenceList
	refs.each("resources", resource, k.Resources)
	//lint:ignore SA1019 kustomize still reads it, so it is fenced
	refs.each("bases", resource, k.Bases)
	refs.each("components", component, k.Components)
	refs.each("crds", manifest, k.Crds)
	refs.each("configurations", manifest, k.Configurations)
	for i, p := range k.Patches {
		refs.patch(fmt.Sprintf("patches[%d]", i), p)
	}
	//lint:ignore SA1019 kustomize still reads it, so it is fenced
	for i, p := range k.PatchesJson6902 {
		refs.patch(fmt.Sprintf("patchesJson6902[%d]", i), p)
	}
	//lint:ignore SA1019 kustomize still reads it, so it is fenced
	for i, p := range k.PatchesStrategicMerge {
		refs.pathOrInline(fmt.Sprintf("patchesStrategicMerge[%d]", i), string(p))
	}
	for i, r := range k.Replacements {
		refs.add(fmt.Sprintf("replacements[%d].path", i), manifest, r.Path)
	}
	for i, c := range k.ConfigMapGenerator {
		field := fmt.Sprintf("configMapGenerator[%d]", i)
		g.generates("ConfigMap", place{file, g.lineOf(file, field)}, c.GeneratorArgs)
		refs.pairs(field, payload, c.KvPairSources)
	}
	for i, s := range k.SecretGenerator {
		field := fmt.Sprintf("secretGenerator[%d]", i)
		g.generates("Secret", place{file, g.lineOf(file, field)}, s.GeneratorArgs)
		refs.pairs(field, secret, s.KvPairSources)
		if err := g.keepLiterals(s.LiteralSources); err != nil {
			return nil, g.inField(file, field+".literals", err)
		}
	}
	refs.add("openapi.path", manifest, k.OpenAPI["path"])
	for _, inline := range refs.inline {
		if err := checkAliases([]byte(inline.target)); err != nil {
			return nil, g.inField(file, inline.field, unreadable(err))
		}
	}
	if err := g.plugins(file, k, &refs); err != nil {
		return nil, err
	}
	return refs.list, nil
}

type referenceList struct {
	list   []reference
	inline []reference // documents written into the kustomization itself
}

// add ignores an empty target: the field is not set.
func (l *referenceList) add(field string, r role, target string) {
	if target != "" {
		l.list = append(l.list, reference{field: field, target: target, role: r})
	}
}

func (l *referenceList) each(field string, r role, targets []string) {
	for i, t := range targets {
		l.list = append(l.list, reference{field: fmt.Sprintf("%s[%d]", field, i), target: t, role: r})
	}
}

func (l *referenceList) patch(field string, p types.Patch) {
	l.add(field+".path", manifest, p.Path)
	l.inline = append(l.inline, reference{field: field + ".patch", target: p.Patch})
}

func (l *referenceList) pathOrInline(field, text string) {
	if isInline(text) && !isURL(text) {
		l.inline = append(l.inline, reference{field: field, target: text})
		return
	}
	l.list = append(l.list, reference{field: field, target: text, role: manifest})
}

// pairs takes the files of a generator, which may be written key=path.
func (l *referenceList) pairs(field string, r role, p types.KvPairSources) {
	for i, source := range p.FileSources {
		if _, target, ok := strings.Cut(source, "="); ok {
			source = target
		}
		l.list = append(l.list, reference{field: fmt.Sprintf("%s.files[%d]", field, i), target: source, role: r})
	}
	l.each(field+".envs", r, p.EnvSources)
	l.add(field+".env", r, p.EnvSource)
}

// isInline tells a document from a path.
func isInline(text string) bool {
	return strings.ContainsAny(text, "\n{") || strings.Contains(text, ": ")
}
