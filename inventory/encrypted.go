// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sealed is how SOPS writes a value that it has encrypted.
const sealed = "ENC[AES256_GCM,data:"

// encryptionDefects find what SOPS has encrypted and nobody has decrypted on the
// way here: pods would get it as it is.
func encryptionDefects(obj *unstructured.Unstructured) []Defect {
	if _, ok := obj.Object["sops"].(map[string]any); ok {
		return []Defect{{"sops", "is encrypted by SOPS: give the key that opens it with --decryption-keys"}}
	}
	var out []Defect
	for _, at := range []string{"data", "stringData"} {
		values, _ := obj.Object[at].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text, _ := values[key].(string)
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				decoded = nil
			}
			if bytes.Contains([]byte(text), []byte(sealed)) || bytes.Contains(decoded, []byte(sealed)) {
				out = append(out, Defect{at + "." + key, "holds what SOPS has encrypted: give the key that opens it with --decryption-keys"})
			}
		}
	}
	return out
}
