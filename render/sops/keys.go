// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Keys open files. The zero value opens none.
type Keys struct {
	identities []age.Identity
	ring       openpgp.EntityList
	names      []string // public: recipients and fingerprints
}

// maxKeys bounds one file of keys.
const maxKeys = 1 << 20

// ReadKeys reads a file of keys, or in a directory, such as a mounted Secret,
// every file whose name ends in .agekey or .asc. A file holds age identities, a
// line each, or armored OpenPGP secret keys. Errors name a file of a directory
// and quote nothing of it.
func ReadKeys(fsys fs.FS, name string) (Keys, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return Keys{}, plainly(err)
	}
	files := []string{name}
	if info.IsDir() {
		if files, err = keyFiles(fsys, name); err != nil {
			return Keys{}, err
		}
	}
	var keys Keys
	for _, file := range files {
		data, err := readKeyFile(fsys, file)
		if err == nil {
			err = keys.add(data)
		}
		if err != nil && info.IsDir() {
			err = fmt.Errorf("%s: %w", path.Base(file), err)
		}
		if err != nil {
			return Keys{}, err
		}
	}
	slices.Sort(keys.names)
	keys.names = slices.Compact(keys.names)
	return keys, nil
}

// ID tells keys from other keys. It is no secret.
func (k Keys) ID() string {
	sum := sha256.Sum256([]byte(strings.Join(k.names, "\n")))
	return hex.EncodeToString(sum[:])
}

func keyFiles(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, plainly(err)
	}
	var files []string
	for _, e := range entries {
		if ext := path.Ext(e.Name()); ext == ".agekey" || ext == ".asc" {
			files = append(files, path.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("holds no file whose name ends in .agekey or .asc")
	}
	return files, nil
}

func readKeyFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
	switch {
	case err != nil:
		return nil, plainly(err)
	case len(data) > maxKeys:
		return nil, fmt.Errorf("is larger than %d MiB", maxKeys>>20)
	}
	return data, nil
}

// plainly leaves out the operation and the path: the caller names the file.
func plainly(err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return cause.Err
	}
	return err
}

func (k *Keys) add(data []byte) error {
	if blocks := bytes.Count(data, []byte("-----BEGIN PGP ")); blocks > 0 {
		return k.addPGP(string(data), blocks)
	}
	return k.addAge(string(data))
}

// addAge reads a line at a time: the library quotes a line that it cannot read.
func (k *Keys) addAge(text string) error {
	found := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		ids, err := age.ParseIdentities(strings.NewReader(line))
		if err != nil || len(ids) != 1 {
			return fmt.Errorf("line %d is no age identity: it should begin with AGE-SECRET-KEY-", n)
		}
		found = true
		k.identities = append(k.identities, ids[0])
		k.names = append(k.names, recipientOf(ids[0]))
	}
	if !found {
		return errors.New("holds no key")
	}
	return nil
}

// recipientOf is the public half of an identity.
func recipientOf(id age.Identity) string {
	switch id := id.(type) {
	case *age.X25519Identity:
		return id.Recipient().String()
	case *age.HybridIdentity:
		return id.Recipient().String()
	default:
		return fmt.Sprintf("%T", id)
	}
}

// addPGP reads all armored blocks of a file.
func (k *Keys) addPGP(text string, blocks int) error {
	r := strings.NewReader(text)
	for n := 1; n <= blocks; n++ {
		block, err := armor.Decode(r)
		if err != nil {
			return fmt.Errorf("OpenPGP block %d cannot be read", n)
		}
		if block.Type != openpgp.PrivateKeyType {
			return fmt.Errorf("OpenPGP block %d is no secret key: gpg --export-secret-keys --armor writes one", n)
		}
		ring, err := openpgp.ReadKeyRing(block.Body)
		if err != nil || len(ring) == 0 {
			return fmt.Errorf("OpenPGP block %d cannot be read", n)
		}
		for _, e := range ring {
			if err := k.addEntity(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Keys) addEntity(e *openpgp.Entity) error {
	name := fmt.Sprintf("%X", e.PrimaryKey.Fingerprint)
	usable := e.PrivateKey != nil && !e.PrivateKey.Dummy()
	locked := usable && e.PrivateKey.Encrypted
	k.names = append(k.names, name)
	for _, sub := range e.Subkeys {
		if sub.PrivateKey == nil || sub.PrivateKey.Dummy() {
			continue
		}
		usable = true
		locked = locked || sub.PrivateKey.Encrypted
		k.names = append(k.names, fmt.Sprintf("%X", sub.PublicKey.Fingerprint))
	}
	switch {
	case locked:
		return fmt.Errorf("PGP key %s is protected by a passphrase: export it without one", name)
	case !usable:
		return fmt.Errorf("PGP key %s has no secret part", name)
	}
	k.ring = append(k.ring, e)
	return nil
}
