// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// listManifests gives a directory without a kustomization file one that names
// its manifests, those that `kubectl apply -f` would take.
func (g *graph) listManifests(dir string) (string, error) {
	entries, err := fs.ReadDir(g.fsys.tree, dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, reason(err))
	}
	var manifests []string
	for _, e := range entries {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		name := path.Join(dir, e.Name())
		info, err := g.fsys.stat(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if !info.IsDir() {
			manifests = append(manifests, e.Name())
		}
	}
	if len(manifests) == 0 {
		return "", fmt.Errorf("%s: has neither a kustomization.yaml nor manifests", dir)
	}
	data, err := json.Marshal(types.Kustomization{Resources: manifests})
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	file := path.Join(dir, konfig.DefaultKustomizationFileName())
	g.fsys.overlay(file, data)
	g.plain = true
	return file, nil
}

// trackOrigins makes kustomize annotate each object with the file it is from.
// The annotation is read and dropped after the build, unless the kustomization
// asks for it itself.
func (g *graph) trackOrigins(file string) error {
	k, err := g.parse(file)
	if err != nil {
		return err
	}
	if g.origins = slices.Contains(k.BuildMetadata, types.OriginAnnotations); g.origins {
		return nil
	}
	data, err := g.fsys.load(file)
	if err != nil {
		return inFile(file, "", err)
	}
	// The raw fields are kept as they are: a round trip through the typed
	// kustomization could change them.
	fields := map[string]json.RawMessage{}
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return inFile(file, "", unreadable(err))
	}
	for key := range fields {
		if strings.EqualFold(key, "buildMetadata") {
			delete(fields, key)
		}
	}
	if fields["buildMetadata"], err = json.Marshal(append(k.BuildMetadata, types.OriginAnnotations)); err != nil {
		return inFile(file, "", err)
	}
	if data, err = json.Marshal(fields); err != nil {
		return inFile(file, "", err)
	}
	g.fsys.overlay(file, data)
	return nil
}
