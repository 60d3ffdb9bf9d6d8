// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/getsops/sops/v3/shamir"
)

// maxDataKey bounds what is read of a data key, or of a part of one.
const maxDataKey = 1 << 10

// maxSealed bounds a data key that is encrypted with one master key. An OpenPGP
// message and the header of an age file can hold any number of keys to try.
const maxSealed = 16 << 10

// errNotOurs is a data key that none of our keys opens.
var errNotOurs = errors.New("none of the keys opens it")

// dataKey opens the key that the values of a file are encrypted with. Of one
// group any key does; of several, any key of as many groups as the threshold
// says.
func (k Keys) dataKey(groups []group, threshold int) ([]byte, error) {
	var shares [][]byte
	var lacking []error
	for _, g := range groups {
		share, err := k.share(g)
		if err != nil {
			lacking = append(lacking, err)
			continue
		}
		shares = append(shares, share)
	}
	switch {
	case len(groups) == 1 && len(shares) == 1:
		return shares[0], nil
	case len(groups) == 1:
		return nil, lacking[0]
	case len(shares) < max(threshold, 2):
		return nil, fmt.Errorf("needs keys of %d groups, and these open %d: %w", max(threshold, 2), len(shares), lacking[0])
	}
	key, err := shamir.Combine(shares)
	if err != nil {
		return nil, errors.New("the parts of its data key do not fit together")
	}
	return key, nil
}

// share opens what one group of keys is given.
func (k Keys) share(g group) ([]byte, error) {
	var names []string
	var damaged error
	ours := false
	for _, m := range g {
		var data []byte
		err := errNotOurs
		switch {
		case len(m.sealed) > maxSealed:
			err = fmt.Errorf("is larger than %d KiB", maxSealed>>10)
		case m.kind == "age":
			data, err = k.openAge(m.sealed)
		case m.kind == "pgp":
			data, err = k.openPGP(m.sealed)
		}
		if err == nil {
			return data, nil
		}
		ours = ours || m.kind == "age" || m.kind == "pgp"
		if !errors.Is(err, errNotOurs) {
			damaged = fmt.Errorf("its data key for %s %w", m.title(), err)
		}
		names = append(names, m.title())
	}
	switch {
	case damaged != nil:
		return nil, damaged
	case !ours:
		return nil, fmt.Errorf("is encrypted for %s, and only age and PGP keys are used: encrypt it for one with sops updatekeys", strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("is encrypted for %s, and there is no such key among the decryption keys", strings.Join(names, ", "))
	}
}

func (k Keys) openAge(sealed string) ([]byte, error) {
	if len(k.identities) == 0 {
		return nil, errNotOurs
	}
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(sealed)), k.identities...)
	if err != nil {
		if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return nil, errNotOurs
		}
		return nil, errors.New("is damaged")
	}
	return readDataKey(r)
}

func (k Keys) openPGP(sealed string) ([]byte, error) {
	if len(k.ring) == 0 {
		return nil, errNotOurs
	}
	block, err := pgparmor.Decode(strings.NewReader(sealed))
	if err != nil {
		return nil, errors.New("is damaged")
	}
	message, err := openpgp.ReadMessage(block.Body, k.ring, noPassphrase, nil)
	switch {
	case errors.Is(err, pgperrors.ErrKeyIncorrect), errors.Is(err, errPassphrase):
		return nil, errNotOurs
	case err != nil:
		return nil, errors.New("is damaged")
	}
	return readDataKey(message.UnverifiedBody)
}

var errPassphrase = errors.New("a passphrase is needed")

// noPassphrase answers when no key of the ring opens a message: nobody is there
// to ask.
func noPassphrase([]openpgp.Key, bool) ([]byte, error) { return nil, errPassphrase }

// readDataKey reads to the end, where both age and OpenPGP tell whether the
// message is whole.
func readDataKey(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDataKey+1))
	if err != nil || len(data) > maxDataKey {
		return nil, errors.New("is damaged")
	}
	return data, nil
}
