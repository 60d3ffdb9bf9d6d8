// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
)

// seededKey is the same in every run, so that what a fuzz test finds stays found.
func seededKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func pemOf(blob []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})
}
