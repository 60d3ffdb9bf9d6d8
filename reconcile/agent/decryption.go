// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"lamplighter.dev/render/sops"
)

// DecryptionKeys reads the keys at a path: a file, or a folder such as a
// mounted Secret. Errors name the file and quote nothing of it.
func DecryptionKeys(path string) (sops.Keys, error) {
	dir, name := filepath.Split(filepath.Clean(path))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir, name = path, "."
	}
	if dir == "" {
		dir = "."
	}
	keys, err := sops.ReadKeys(os.DirFS(dir), name)
	if err != nil {
		return sops.Keys{}, fmt.Errorf("--decryption-keys %s: %w", path, err)
	}
	return keys, nil
}

// readKeys reads the keys anew, so that they may be added and withdrawn while
// the agent runs.
func (p *poller) readKeys() error {
	if p.decryptionKeys == "" {
		return nil
	}
	keys, err := DecryptionKeys(p.decryptionKeys)
	if err != nil {
		return err
	}
	p.reader.Builder.Decryptor = keys
	return nil
}
