// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sealed is how SOPS writes a value that it has encrypted.
const sealed = "ENC[AES256_GCM,data:"

// howToOpen is what to do about it.
const howToOpen = "give the key that opens it with --decryption-keys"

// encryptionDefects find what SOPS has encrypted and nobody has decrypted on the
// way here: pods would get it as it is.
func encryptionDefects(obj *unstructured.Unstructured) []Defect {
	if metadata, ok := obj.Object["sops"].(map[string]any); ok {
		return []Defect{{"sops", "is encrypted by SOPS" + forKeys(metadata) + ": " + howToOpen, true}}
	}
	var out []Defect
	for _, at := range []string{"data", "stringData"} {
		values, _ := obj.Object[at].(map[string]any)
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if text, _ := values[key].(string); isSealed(text) {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			out = append(out, Defect{at, "holds what SOPS has encrypted, in " + summarise(keys) + ": " + howToOpen, true})
		}
	}
	return out
}

func isSealed(text string) bool {
	decoded, err := base64.StdEncoding.DecodeString(text)
	return strings.Contains(text, sealed) || err == nil && bytes.Contains(decoded, []byte(sealed))
}

// forKeys names the keys that a file is encrypted for; nothing if it does not name
// them.
func forKeys(metadata map[string]any) string {
	groups := []any{metadata}
	if more, ok := metadata["key_groups"].([]any); ok {
		groups = append(groups, more...)
	}
	var names []string
	for _, group := range groups {
		fields, _ := group.(map[string]any)
		for _, s := range []struct{ kind, title, field string }{{"age", "age", "recipient"}, {"pgp", "PGP", "fp"}} {
			keys, _ := fields[s.kind].([]any)
			for _, key := range keys {
				fields, _ := key.(map[string]any)
				if name, ok := fields[s.field].(string); ok {
					names = append(names, s.title+" "+name)
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " for " + summarise(names)
}
