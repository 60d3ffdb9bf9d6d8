// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
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
		re, err := regexp.Compile(pattern)
		if err != nil {
			return rules{}, fmt.Errorf("sops.%s: is no regular expression", key)
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

// seal says whether what stands at path is encrypted. remarks are the comments
// before it and before what it is in; a comment itself is the last of them.
func (r rules) seal(path []string, remarks [][]string, isComment bool) bool {
	key := func(matches func(string) bool) bool { return slices.ContainsFunc(path, matches) }
	switch {
	case r.encryptedSuffix != "":
		return key(func(k string) bool { return strings.HasSuffix(k, r.encryptedSuffix) })
	case r.encryptedKey != nil:
		return key(r.encryptedKey.MatchString)
	case r.unencryptedKey != nil:
		return !key(r.unencryptedKey.MatchString)
	case r.unencryptedComment != nil:
		return !said(remarks, r.unencryptedComment, false)
	case r.encryptedComment != nil:
		return said(remarks, r.encryptedComment, isComment)
	default:
		return !key(func(k string) bool { return strings.HasSuffix(k, r.unencryptedSuffix) })
	}
}

// said says whether a comment matches, the very last one aside if asked.
func said(remarks [][]string, re *regexp.Regexp, exceptLast bool) bool {
	for i, lines := range remarks {
		for j, line := range lines {
			if exceptLast && i == len(remarks)-1 && j == len(lines)-1 {
				continue
			}
			if re.MatchString(line) {
				return true
			}
		}
	}
	return false
}
