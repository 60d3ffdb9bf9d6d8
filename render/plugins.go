// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
)

const helmGenerator = "HelmChartInflationGenerator"

// plugins checks the configurations of generators, transformers and
// validators. Only what is built into kustomize may run, and the paths in its
// configuration are references like any other.
func (g *graph) plugins(file string, k *types.Kustomization, refs *referenceList) error {
	for _, list := range []struct {
		field   string
		entries []string
	}{
		{"generators", k.Generators},
		{"transformers", k.Transformers},
		{"validators", k.Validators},
	} {
		for i, entry := range list.entries {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			configs, err := g.pluginConfigs(path.Dir(file), entry)
			if err != nil {
				return g.inField(file, field, err)
			}
			for _, c := range configs {
				if err := g.plugin(file, field, c, refs); err != nil {
					return g.inField(file, field, err)
				}
			}
		}
	}
	return nil
}

// pluginConfigs reads an entry as kustomize does: as a document if it is one,
// else as a path.
func (g *graph) pluginConfigs(dir, entry string) ([]*kresource.Resource, error) {
	if err := checkAliases([]byte(entry)); err != nil {
		return nil, unreadable(err)
	}
	if m, err := factory().NewResMapFromBytes([]byte(entry)); err == nil {
		return m.Resources(), nil
	}
	target, err := resolve(reference{target: entry}, dir)
	if err != nil {
		return nil, err
	}
	data, err := g.fsys.load(target)
	if errors.Is(err, errDirectory) {
		return nil, fmt.Errorf("%s: %w: name a file", target, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	if err := checkAliases(data); err != nil {
		return nil, fmt.Errorf("%s: %w", target, unreadable(err))
	}
	m, err := factory().NewResMapFromBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, unreadable(err))
	}
	return m.Resources(), nil
}

func factory() *resmap.Factory {
	return resmap.NewFactory(provider.NewDepProvider().GetResourceFactory())
}

// plugin refuses a plugin that would run code of its own, and lists the paths
// that a built-in one reads.
func (g *graph) plugin(file, field string, config *kresource.Resource, refs *referenceList) error {
	kind, gvk := config.GetKind(), config.GetGvk()
	switch {
	case kind == helmGenerator:
		return fmt.Errorf("%s: helm charts are not rendered: commit the output of helm template", kind)
	case gvk.Group != "" || gvk.Version != konfig.BuiltinPluginApiVersion || !slices.Contains(krusty.GetBuiltinPluginNames(), kind):
		return fmt.Errorf("%s %s: plugins are not run: only those built into kustomize are", config.GetApiVersion(), kind)
	}
	m, err := config.Map()
	if err != nil {
		return fmt.Errorf("%s: is not a mapping", kind)
	}
	fields, data := folded(m), payload
	if kind == "SecretGenerator" {
		data = secret
	}
	if made, ok := strings.CutSuffix(kind, "Generator"); ok {
		behavior, _ := fields["behavior"].(string)
		g.generates(made, place{file, g.lineOf(file, field)}, types.GeneratorArgs{Namespace: config.GetNamespace(), Name: config.GetName(), Behavior: behavior})
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, at := fields[key], field+"."+key
		switch key {
		case "path", "targetfilepath", "paths":
			refs.each(at, manifest, texts(value))
		case "env", "envs":
			refs.each(at, data, texts(value))
		case "files":
			refs.pairs(field, data, types.KvPairSources{FileSources: texts(value)})
		case "replacements":
			list, _ := value.([]any)
			for _, r := range list {
				r, _ := r.(map[string]any)
				refs.each(at, manifest, texts(folded(r)["path"]))
			}
		case "literals":
			if err := g.keepLiterals(texts(value)); err != nil {
				return fmt.Errorf("%s: literals: %w", kind, err)
			}
		}
	}
	return nil
}

// folded lowers the keys: kustomize reads them without regard to case.
func folded(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[strings.ToLower(k)] = v
	}
	return out
}

// texts lists the strings of a value that is a string or a list of them.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				out = append(out, s)
			}
		}
		return out
	default:
		return nil
	}
}
