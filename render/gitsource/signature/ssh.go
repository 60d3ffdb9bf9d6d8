// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// gitNamespace keeps a signature on a file or a mail from passing as one on a
// commit.
const gitNamespace = "git"

// verifySSH checks an SSH signature, whose format OpenSSH describes in
// PROTOCOL.sshsig. Whether a key was valid is asked, as Git does, for when the
// object says it was made.
func (k Keys) verifySSH(s signed) (Signer, error) {
	sig, err := sshsig.Unarmor(s.signature)
	if err != nil {
		return Signer{}, errors.New("carries an SSH signature that cannot be read")
	}
	key := "SSH key " + ssh.FingerprintSHA256(sig.PublicKey)
	var refused error
	for _, signer := range k.ssh {
		if !signer.is(sig.PublicKey) {
			continue
		}
		by := Signer{Key: key, Name: signer.principals}
		if err := checkSSH(s, sig, signer.key); err != nil {
			return Signer{}, fmt.Errorf("%w by %s", err, by)
		}
		if refused = signer.allows(s.by); refused == nil {
			return by, nil
		}
	}
	if refused != nil {
		return Signer{}, fmt.Errorf("is signed with %s, which %w", key, refused)
	}
	return Signer{}, unknownKey(key)
}

func checkSSH(s signed, sig *sshsig.Signature, key ssh.PublicKey) error {
	if sig.Namespace != gitNamespace {
		return fmt.Errorf("carries a signature for %q, not for %q,", sig.Namespace, gitNamespace)
	}
	if sshsig.Verify(bytes.NewReader(s.payload), sig, key, sig.HashAlgorithm, gitNamespace) != nil {
		return errors.New("does not match its signature")
	}
	return nil
}
