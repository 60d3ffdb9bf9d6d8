// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Keys are the keys that are trusted. The zero value trusts nobody.
type Keys struct {
	openPGP openpgp.EntityList
	ssh     []allowedSigner
}

// Len is how many keys there are.
func (k Keys) Len() int { return len(k.openPGP) + len(k.ssh) }

const (
	beginKeys = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	endKeys   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// ParseKeys reads a file of trusted keys: armored OpenPGP public keys, lines as
// in OpenSSH's allowed_signers, or both. It lists everything that is wrong with
// it, by line. A file without a key is an error.
func ParseKeys(file []byte) (Keys, error) {
	var k Keys
	var errs []error
	problem := func(line int, err error) { errs = append(errs, fmt.Errorf("line %d: %w", line, err)) }
	lines := strings.Split(string(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n"))), "\n")
	for i := 0; i < len(lines); i++ {
		at, line := i+1, strings.TrimSpace(lines[i])
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == beginKeys:
			block := []string{line}
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != endKeys; i++ {
				block = append(block, lines[i])
			}
			if i == len(lines) {
				problem(at, errors.New("the OpenPGP block has no end"))
				break
			}
			entities, err := parseOpenPGP(strings.Join(append(block, endKeys), "\n"))
			if err != nil {
				problem(at, err)
			}
			k.openPGP = append(k.openPGP, entities...)
		case strings.HasPrefix(line, "-----BEGIN") && strings.Contains(line, "PRIVATE KEY"):
			problem(at, errors.New("a private key does not belong here: take it out, and take it for lost"))
			return Keys{}, errors.Join(errs...)
		default:
			signer, err := parseSigner(line)
			if err != nil {
				problem(at, err)
				continue
			}
			k.ssh = append(k.ssh, signer)
		}
	}
	if len(errs) == 0 && k.Len() == 0 {
		errs = append(errs, errors.New("holds no key: put OpenPGP public keys or lines of allowed_signers into it"))
	}
	if len(errs) > 0 {
		return Keys{}, errors.Join(errs...)
	}
	return k, nil
}
