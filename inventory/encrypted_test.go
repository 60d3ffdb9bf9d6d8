// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"lamplighter.dev/inventory"
)

func TestEncryptedValuesAreDefects(t *testing.T) {
	const sealed = "ENC[AES256_GCM,data:p673w==,iv:YY=,tag:UQ=,type:str]"
	for _, tt := range []struct{ kind, field, value, want string }{
		{"ConfigMap", "data", "password: " + sealed, "[{data holds what SOPS has encrypted, in key: give the key that opens it with --decryption-keys true}]"},
		{"Secret", "stringData", sealed, "[{stringData holds what SOPS has encrypted, in key: give the key that opens it with --decryption-keys true}]"},
		{"Secret", "data", base64.StdEncoding.EncodeToString([]byte("password: " + sealed)), "[{data holds what SOPS has encrypted, in key: give the key that opens it with --decryption-keys true}]"},
		{"Secret", "data", "cGxhaW4=", "[]"},
		{"ConfigMap", "data", "about SOPS: ENC[...]", "[]"},
	} {
		obj := objectOf(parse(t, tt.kind+"/ns/a"))
		obj.Object[tt.field] = map[string]any{"key": tt.value}
		if got := fmt.Sprint(inventory.Defects(obj)); got != tt.want {
			t.Errorf("%s %s %q: got %s, want %s", tt.kind, tt.field, tt.value, got, tt.want)
		}
	}
}
