// SPDX-License-Identifier: Apache-2.0

// Package signature answers whether a commit or an annotated tag was signed
// with a key that is trusted. It reads the object's bytes as Git stores them
// and the keys it is given, and asks nobody else: no keyserver, no agent, no
// other program.
//
//	keys, err := signature.ParseKeys(file)
//	signer, err := keys.VerifyCommit(commit, now)
//
// One signature speaks for the object it is on: through the hashes for all
// files of that commit, and not for who made the commits before it.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Signer is whose signature an object carries.
type Signer struct {
	// Key names the key: its kind and fingerprint.
	Key string
	// Name is whom the key belongs to: a user ID of an OpenPGP key, the
	// principals of an SSH key.
	Name string
}

func (s Signer) String() string { return s.Key + " (" + s.Name + ")" }

// Tag is what a tag has to be: a signature on a tag means nothing for another
// name or another commit.
type Tag struct{ Name, Commit string }

// VerifyCommit answers who signed a commit. Any error means that it must not be
// trusted; it is one line and says which key is missing, if that is all.
func (k Keys) VerifyCommit(object []byte, now time.Time) (Signer, error) {
	s, err := splitCommit(object)
	if err != nil {
		return Signer{}, err
	}
	return k.verify(s, now)
}

// VerifyTag answers who signed an annotated tag.
func (k Keys) VerifyTag(object []byte, want Tag, now time.Time) (Signer, error) {
	s, err := splitTag(object)
	switch {
	case err != nil:
		return Signer{}, err
	case s.tag.Name != want.Name:
		return Signer{}, fmt.Errorf("was made as tag %q, and is shown as %q", s.tag.Name, want.Name)
	case s.tag.Commit != want.Commit:
		return Signer{}, fmt.Errorf("points to %s, not to commit %s", s.tag.Commit, want.Commit)
	}
	return k.verify(s, now)
}

// The first line of each kind of signature.
var (
	beginOpenPGP = []byte("-----BEGIN PGP SIGNATURE-----\n")
	beginSSH     = []byte("-----BEGIN SSH SIGNATURE-----\n")
	beginX509    = []byte("-----BEGIN SIGNED MESSAGE-----\n")
)

func (k Keys) verify(s signed, now time.Time) (Signer, error) {
	switch {
	case len(s.signature) == 0:
		return Signer{}, errors.New("is not signed")
	case !one(s.signature):
		return Signer{}, errors.New("carries something beside one signature")
	case bytes.HasPrefix(s.signature, beginOpenPGP):
		return k.verifyOpenPGP(s, now)
	case bytes.HasPrefix(s.signature, beginSSH):
		return k.verifySSH(s)
	case bytes.HasPrefix(s.signature, beginX509):
		return Signer{}, errors.New("is signed with an X.509 certificate: only OpenPGP and SSH keys can be trusted")
	default:
		return Signer{}, errors.New("carries a signature of a kind that is not known")
	}
}

// one says whether a text is one armored block, with at most white space behind
// it. Of two, another reader could take the other one.
func one(text []byte) bool {
	text = bytes.TrimRight(text, " \n")
	last := text[bytes.LastIndexByte(text, '\n')+1:]
	return bytes.Count(text, []byte("-----BEGIN ")) == 1 && bytes.HasPrefix(last, []byte("-----END "))
}

// unknownKey is a signature whose key is missing.
func unknownKey(key string) error {
	return fmt.Errorf("is signed with %s, which is not among the trusted keys", key)
}
