// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// minBits is the shortest RSA key that nobody can break yet.
const minBits = 2048

// strongHashes cannot be made to collide. Git's own SHA-1 is what a signature
// is to make good for.
var strongHashes = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}

// parseOpenPGP reads one armored block. Unlike the library's reader it skips no
// key that it does not understand.
func parseOpenPGP(block string) (openpgp.EntityList, error) {
	decoded, err := armor.Decode(strings.NewReader(block))
	if err != nil {
		return nil, errors.New("the OpenPGP block cannot be read")
	}
	var entities openpgp.EntityList
	packets := packet.NewReader(decoded.Body)
	for {
		e, err := openpgp.ReadEntity(packets)
		if errors.Is(err, io.EOF) && len(entities) > 0 {
			return entities, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the OpenPGP block cannot be read: %w", err)
		}
		if err := usable(e); err != nil {
			return nil, fmt.Errorf("%s: %w", nameOf(e.PrimaryKey.Fingerprint), err)
		}
		entities = append(entities, e)
	}
}

func usable(e *openpgp.Entity) error {
	if self, _ := e.PrimarySelfSignature(); self == nil {
		return errors.New("has no signature of its own")
	}
	keys := []*packet.PublicKey{e.PrimaryKey}
	for _, sub := range e.Subkeys {
		if sub.Sig != nil && sub.Sig.FlagsValid && sub.Sig.FlagSign {
			keys = append(keys, sub.PublicKey)
		}
	}
	for _, k := range keys {
		switch k.PubKeyAlgo {
		case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoDSA:
			if bits, err := k.BitLength(); err != nil || bits < minBits {
				return fmt.Errorf("%d bits are too few: %d are needed", bits, minBits)
			}
		}
	}
	return nil
}

func (k Keys) verifyOpenPGP(s signed, now time.Time) (Signer, error) {
	sig, packed, err := readOpenPGP(s.signature)
	if err != nil {
		return Signer{}, err
	}
	by := Signer{Key: nameOfIssuer(sig)}
	if !slices.Contains(strongHashes, sig.Hash) {
		return Signer{}, fmt.Errorf("is signed over %s with %s: that hash can be forged", sig.Hash, by.Key)
	}
	config := &packet.Config{Time: func() time.Time { return now }}
	_, entity, err := openpgp.VerifyDetachedSignature(k.openPGP, bytes.NewReader(s.payload), bytes.NewReader(packed), config)
	if entity != nil {
		by = Signer{Key: nameOf(entity.PrimaryKey.Fingerprint), Name: userOf(entity)}
	}
	switch {
	case err == nil:
		return by, nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return Signer{}, unknownKey(by.Key)
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return Signer{}, fmt.Errorf("is signed with %s, which is revoked", by)
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return Signer{}, fmt.Errorf("is signed with %s, which is not valid now: it has expired", by)
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return Signer{}, fmt.Errorf("carries a signature by %s that is not valid now", by)
	default:
		return Signer{}, fmt.Errorf("does not match its signature by %s: it was changed since, or the signature was", by.Key)
	}
}

// readOpenPGP reads a block of exactly one signature, and answers its bytes too.
func readOpenPGP(text []byte) (*packet.Signature, []byte, error) {
	unreadable := errors.New("carries an OpenPGP signature that cannot be read")
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil || block.Type != openpgp.SignatureType {
		return nil, nil, unreadable
	}
	packed, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, nil, unreadable
	}
	packets := packet.NewReader(bytes.NewReader(packed))
	first, err := packets.Next()
	if err != nil {
		return nil, nil, unreadable
	}
	sig, ok := first.(*packet.Signature)
	switch {
	case !ok || sig.IssuerKeyId == nil:
		return nil, nil, unreadable
	case sig.SigType != packet.SigTypeBinary && sig.SigType != packet.SigTypeText:
		return nil, nil, errors.New("carries an OpenPGP signature that is not one of a document")
	}
	if _, err := packets.Next(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("carries more than one OpenPGP signature, or something after it")
	}
	return sig, packed, nil
}

func nameOfIssuer(sig *packet.Signature) string {
	if len(sig.IssuerFingerprint) > 0 {
		return nameOf(sig.IssuerFingerprint)
	}
	return fmt.Sprintf("OpenPGP key %016X", *sig.IssuerKeyId)
}

func nameOf(fingerprint []byte) string { return fmt.Sprintf("OpenPGP key %X", fingerprint) }

// userOf is the primary user ID, else the first one by name.
func userOf(e *openpgp.Entity) string {
	if id := e.PrimaryIdentity(); id != nil {
		return id.Name
	}
	names := slices.Sorted(maps.Keys(e.Identities))
	return strings.Join(names[:min(1, len(names))], "")
}
