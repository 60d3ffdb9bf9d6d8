// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// rules say which values of a file are encrypted. One of them is set.
type rules struct {
	unencryptedSuffix, encryptedSuffix   string
	unencryptedKey, encryptedKey         *regexp.Regexp
	unencryptedComment, encryptedComment *regexp.Regexp

	macOnlyEncrypted bool
}

func readRules(m map[string]any) (rules, error) {
	r := rules{
		unencryptedSuffix: textOf(m, "unencrypted_suffix"),
		encryptedSuffix:   textOf(m, "encrypted_suffix"),
		macOnlyEncrypted:  strings.EqualFold(textOf(m, "mac_only_encrypted"), "true"),
	}
	set := 0
	for _, s := range []string{r.unencryptedSuffix, r.encryptedSuffix} {
		if s != "" {
			set++
		}
	}
	for key, field := range map[string]**regexp.Regexp{
		"unencrypted_regex": &r.unencryptedKey, "encrypted_regex": &r.encryptedKey,
		"unencrypted_comment_regex": &r.unencryptedComment, "encrypted_comment_regex": &r.encryptedComment,
	} {
		pattern := textOf(m, key)
		if pattern == "" {
			continue
		}
		re, err := compile(pattern)
		if err != nil {
			return rules{}, fmt.Errorf("sops.%s: %w", key, err)
		}
		set++
		*field = re
	}
	switch set {
	case 0:
		r.unencryptedSuffix = "_unencrypted"
	case 1:
	default:
		return rules{}, errors.New("sops: has more than one rule of what is encrypted")
	}
	return r, nil
}

// maxSteps bounds a regular expression: each key of a file may take as many steps a
// letter.
const maxSteps = 1000

func compile(pattern string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, errors.New("is no regular expression")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, errors.New("is no regular expression")
	}
	if len(program.Inst) > maxSteps {
		return nil, errors.New("is too large a regular expression")
	}
	return regexp.Compile(pattern)
}

// matchesKey says whether a key is one that the rule names.
func (r rules) matchesKey(key string) bool {
	switch {
	case r.encryptedSuffix != "":
		return strings.HasSuffix(key, r.encryptedSuffix)
	case r.encryptedKey != nil:
		return r.encryptedKey.MatchString(key)
	case r.unencryptedKey != nil:
		return r.unencryptedKey.MatchString(key)
	case r.unencryptedSuffix != "":
		return strings.HasSuffix(key, r.unencryptedSuffix)
	}
	return false
}

// matchesComment says whether a comment is one that the rule names.
func (r rules) matchesComment(text string) bool {
	switch {
	case r.encryptedComment != nil:
		return r.encryptedComment.MatchString(text)
	case r.unencryptedComment != nil:
		return r.unencryptedComment.MatchString(text)
	}
	return false
}

// seal says whether a value is encrypted: keyed, that a key on the way to it
// matches, and said, that a comment does.
func (r rules) seal(keyed, said bool) bool {
	switch {
	case r.encryptedComment != nil:
		return said
	case r.unencryptedComment != nil:
		return !said
	case r.encryptedSuffix != "" || r.encryptedKey != nil:
		return keyed
	default:
		return !keyed
	}
}

// sealComment is seal for a comment. One that says what is encrypted after it is not
// encrypted for that, and one that says what is not, is not either.
func (r rules) sealComment(keyed, before, matches bool) bool {
	if r.encryptedComment != nil {
		return r.seal(keyed, before)
	}
	return r.seal(keyed, matches)
}
