// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// A file is a tree of branches, whatever its format: their order counts for the
// MAC, and comments may say what is encrypted.
type branch []item

// item is a comment, or a key with its value.
type item struct {
	comment *comment
	key     string
	value   any // branch, list, *leaf, or nil for null
}

// list holds branches, lists, *leaf, *comment, and nil for null.
type list []any

// leaf is a value where it stands in the file.
type leaf struct {
	value any // string, int, float64, bool or time.Time
	set   func(any) error
	// drop puts a comment in place of an element of a list: SOPS writes an
	// encrypted comment in a list as if it were one. It is nil elsewhere.
	drop func(remark)
}

// comment is one line of a comment.
type comment struct {
	text string
	set  func(string)
}

// walk decrypts a tree in place.
type walk struct {
	rules  rules
	cipher dataCipher
	hash   hash.Hash
	values []string // that were encrypted
}

// encryptedOnly begins the MAC of a file whose MAC covers only what is
// encrypted, so that it is never the MAC of a file whose MAC covers all: the
// SHA-256 of "sops".
var encryptedOnly = []byte{
	0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
	0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
}

func newWalk(m metadata, c dataCipher) *walk {
	w := &walk{rules: m.rules, cipher: c, hash: sha512.New()}
	if m.rules.macOnlyEncrypted {
		w.hash.Write(encryptedOnly)
	}
	return w
}

func (w *walk) mac() string { return fmt.Sprintf("%X", w.hash.Sum(nil)) }

// spot is where a walk is: the keys on the way, and what the rules say of them and
// of the comments before them.
type spot struct {
	path  []string
	depth int  // of maps and lists
	keyed bool // a key on the way matches the rule
	said  bool // a comment before the value, or before what it is in, does
}

// deepest is how many maps and lists may be in one another. What Kubernetes takes
// is nested far less, and each value costs as much as it is deep.
const deepest = 128

// into is the spot of what is under a key.
func (w *walk) into(at spot, key string, said bool) spot {
	return spot{append(at.path, key), at.depth + 1, at.keyed || w.rules.matchesKey(key), said}
}

// branch walks b, which is at a spot.
func (w *walk) branch(b branch, at spot) error {
	said := at.said
	for _, i := range b {
		if i.comment != nil {
			said = w.comment(i.comment, at, said)
			continue
		}
		if err := w.value(i.value, w.into(at, i.key, said)); err != nil {
			return err
		}
		said = at.said
	}
	return nil
}

func (w *walk) value(v any, at spot) error {
	if at.depth > deepest {
		return fmt.Errorf("is nested more than %d deep", deepest)
	}
	switch v := v.(type) {
	case branch:
		return w.branch(v, at)
	case list:
		return w.list(v, at)
	case *leaf:
		if err := w.leaf(v, at); err != nil {
			return fmt.Errorf("%s: %w", shown(strings.Join(at.path, ".")), err)
		}
	}
	return nil
}

func (w *walk) list(l list, at spot) error {
	said := at.said
	for _, v := range l {
		if c, ok := v.(*comment); ok {
			said = w.comment(c, at, said)
			continue
		}
		next := at
		next.depth, next.said = at.depth+1, said
		if err := w.value(v, next); err != nil {
			return err
		}
		said = at.said
	}
	return nil
}

func (w *walk) leaf(l *leaf, at spot) error {
	sealed := w.rules.seal(at.keyed, at.said)
	if sealed {
		if err := w.decrypt(l, place(at.path)); err != nil {
			return err
		}
	}
	if _, isRemark := l.value.(remark); isRemark || w.rules.macOnlyEncrypted && !sealed {
		return nil
	}
	data, err := bytesOf(l.value)
	if err != nil {
		return err
	}
	w.hash.Write(data)
	return nil
}

func (w *walk) decrypt(l *leaf, place string) error {
	text, ok := l.value.(string)
	if !ok {
		return errNotSealed
	}
	v, err := w.cipher.open(text, place)
	if err != nil {
		return err
	}
	l.value = v
	switch v := v.(type) {
	case remark:
		if l.drop == nil {
			return errors.New("holds a comment where a value should be")
		}
		w.values = append(w.values, string(v))
		l.drop(v)
		return nil
	case bool: // hides nothing
	default:
		data, err := bytesOf(v)
		if err != nil {
			return err
		}
		w.values = append(w.values, string(data))
	}
	return l.set(v)
}

// comment decrypts a comment, if it is encrypted, and answers whether it or one
// before it matches. SOPS did not always encrypt them, and no MAC covers them.
func (w *walk) comment(c *comment, at spot, said bool) bool {
	matches := said || w.rules.matchesComment(c.text)
	if w.rules.sealComment(at.keyed, said, matches) {
		switch v, _ := w.cipher.open(c.text, place(at.path)); v := v.(type) {
		case remark:
			w.values = append(w.values, string(v))
			c.set(string(v))
		case string:
			c.set(v)
		}
	}
	return matches
}

// place is what binds a value to where it stands.
func place(path []string) string { return strings.Join(path, ":") + ":" }
