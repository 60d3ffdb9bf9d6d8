// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// checkTexts refuses other values than text where the API server takes nothing
// else. YAML makes numbers and booleans of what is not quoted.
func checkTexts(object map[string]any) error {
	paths := [][]string{{"metadata", "labels"}, {"metadata", "annotations"}}
	if object["apiVersion"] == "v1" {
		switch object["kind"] {
		case "ConfigMap":
			paths = append(paths, []string{"data"}, []string{"binaryData"})
		case "Secret":
			paths = append(paths, []string{"data"}, []string{"stringData"})
		}
	}
	for _, path := range paths {
		if err := checkText(object, path); err != nil {
			return err
		}
	}
	return nil
}

func checkText(object map[string]any, path []string) error {
	at := any(object)
	for _, key := range path {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	m, ok := at.(map[string]any)
	if !ok {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if _, ok := m[key].(string); !ok && m[key] != nil {
			return within("."+strings.Join(path, ".")+"."+key, errors.New("is not text: quote it"))
		}
	}
	return nil
}
