// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

// listManifests gives a directory without a kustomization file one that names
// its manifests, those that `kubectl apply -f` would take.
func (g *graph) listManifests(dir string) error {
	entries, err := g.fsys.readDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	var manifests []string
	for _, e := range entries {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		name := path.Join(dir, e.Name())
		info, err := g.fsys.stat(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !info.IsDir() {
			manifests = append(manifests, e.Name())
		}
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s: has neither a kustomization.yaml nor manifests", dir)
	}
	data, err := json.Marshal(types.Kustomization{Resources: manifests})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	g.fsys.overlay(path.Join(dir, konfig.DefaultKustomizationFileName()), data)
	g.plain = true
	return nil
}
