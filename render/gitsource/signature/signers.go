// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// allowedSigner is one line of OpenSSH's allowed_signers, which ssh-keygen(1)
// describes. Its times are UTC, with or without the Z.
type allowedSigner struct {
	principals    string // patterns
	namespaces    string // patterns; "" allows any
	after, before time.Time
	key           ssh.PublicKey
}

// keyTypes can be trusted. The certificates of an authority are not among them.
var keyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSA, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// parseSigner reads one line: principals, options if there are any, key.
func parseSigner(line string) (allowedSigner, error) {
	principals, rest, err := cutField(line)
	if err != nil {
		return allowedSigner{}, err
	}
	if strings.ContainsRune(rest, '\n') || rest == "" {
		return allowedSigner{}, errors.New("is neither a line of allowed_signers nor part of an OpenPGP block")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return allowedSigner{}, errors.New("holds no SSH public key: allowed_signers has principals, options, key type, key")
	}
	s := allowedSigner{principals: principals, key: key}
	if !slices.Contains(keyTypes, key.Type()) {
		return allowedSigner{}, fmt.Errorf("keys of type %s cannot be trusted", key.Type())
	}
	if bits := rsaBits(key); bits > 0 && bits < minBits {
		return allowedSigner{}, fmt.Errorf("%d bits are too few for an RSA key: %d are needed", bits, minBits)
	}
	for _, option := range options {
		if err := s.set(option); err != nil {
			return allowedSigner{}, err
		}
	}
	if !s.after.IsZero() && !s.before.IsZero() && !s.after.Before(s.before) {
		return allowedSigner{}, errors.New("valid-after is not before valid-before: the key is never valid")
	}
	return s, nil
}

// cutField takes the first field off a line. It may be quoted.
func cutField(line string) (field, rest string, err error) {
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		field, rest, ok = strings.Cut(quoted, `"`)
		if !ok || field == "" || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
			return "", "", errors.New("the quotes of the principals do not end")
		}
	} else if end := strings.IndexAny(line, " \t"); end >= 0 {
		field, rest = line[:end], line[end:]
	} else {
		field = line
	}
	return field, strings.TrimSpace(rest), nil
}

func rsaBits(key ssh.PublicKey) int {
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok {
			return r.N.BitLen()
		}
	}
	return 0
}

func (s *allowedSigner) set(option string) error {
	name, value, hasValue := strings.Cut(option, "=")
	inner, opens := strings.CutPrefix(value, `"`)
	inner, closes := strings.CutSuffix(inner, `"`)
	var err error
	switch name = strings.ToLower(name); {
	case name == "cert-authority":
		return errors.New("cert-authority is not supported: list the keys themselves")
	case name != "namespaces" && name != "valid-after" && name != "valid-before":
		return fmt.Errorf("the option %q is not known", name)
	case !hasValue || !opens || !closes || inner == "":
		return fmt.Errorf("the option %s has no value in quotes", name)
	case name == "namespaces" && s.namespaces == "":
		s.namespaces = inner
	case name == "valid-after" && s.after.IsZero():
		s.after, err = parseTime(inner)
	case name == "valid-before" && s.before.IsZero():
		s.before, err = parseTime(inner)
	default:
		return fmt.Errorf("the option %s is there twice", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// parseTime reads YYYYMMDD, with HHMM or HHMMSS, and Z or not.
func parseTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(digits) == len(layout) {
			if t, err := time.Parse(layout, digits); err == nil && !t.IsZero() {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS", text)
}

// is says whether the line is about a key.
func (s allowedSigner) is(key ssh.PublicKey) bool {
	return bytes.Equal(s.key.Marshal(), key.Marshal())
}

// allows says why a key that signed well may not have: nil if it may.
func (s allowedSigner) allows(by person) error {
	switch {
	case s.namespaces != "" && !matches(s.namespaces, gitNamespace):
		return fmt.Errorf("may sign in %s, not in %s", s.namespaces, gitNamespace)
	case !s.after.IsZero() && by.when.Before(s.after):
		return fmt.Errorf("is valid from %s on, and this was made at %s", s.after.Format(time.RFC3339), by.when.Format(time.RFC3339))
	case !s.before.IsZero() && by.when.After(s.before):
		return fmt.Errorf("was valid until %s, and this was made at %s", s.before.Format(time.RFC3339), by.when.Format(time.RFC3339))
	case !matches(s.principals, by.email):
		return fmt.Errorf("signs for %s, not for %s", s.principals, by.email)
	}
	return nil
}

// matches says whether a list of patterns, with * and ?, covers a name. One
// that begins with ! and matches outdoes the others.
func matches(patterns, name string) bool {
	found := false
	for pattern := range strings.SplitSeq(patterns, ",") {
		pattern, not := strings.CutPrefix(pattern, "!")
		ok, err := path.Match(literal.Replace(pattern), slashless.Replace(name))
		switch {
		case err != nil, !ok:
		case not:
			return false
		default:
			found = true
		}
	}
	return found
}

// A pattern of OpenSSH knows only * and ?, and no separator that they stop at.
var (
	literal   = strings.NewReplacer(`[`, `\[`, `\`, `\\`, "/", "\x00")
	slashless = strings.NewReplacer("/", "\x00")
)
