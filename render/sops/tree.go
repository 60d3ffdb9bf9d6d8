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

// branch walks b, which is at path. remarks are the comments before each value
// on the way to it, by depth.
func (w *walk) branch(b branch, path []string, remarks [][]string) error {
	remarks = append(remarks, nil)
	last := len(remarks) - 1
	for _, i := range b {
		if i.comment != nil {
			remarks[last] = append(remarks[last], i.comment.text)
			w.comment(i.comment, path, remarks)
			continue
		}
		if err := w.value(i.value, append(path, i.key), remarks); err != nil {
			return err
		}
		remarks[last] = nil
	}
	return nil
}

func (w *walk) value(v any, path []string, remarks [][]string) error {
	switch v := v.(type) {
	case branch:
		return w.branch(v, path, remarks)
	case list:
		return w.list(v, path, remarks)
	case *leaf:
		if err := w.leaf(v, path, remarks); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
	}
	return nil
}

func (w *walk) list(l list, path []string, remarks [][]string) error {
	remarks = append(remarks, nil)
	last := len(remarks) - 1
	for _, v := range l {
		if c, ok := v.(*comment); ok {
			remarks[last] = append(remarks[last], c.text)
			w.comment(c, path, remarks)
			continue
		}
		if err := w.value(v, path, remarks); err != nil {
			return err
		}
		remarks[last] = nil
	}
	return nil
}

func (w *walk) leaf(l *leaf, path []string, remarks [][]string) error {
	sealed := w.rules.seal(path, remarks, false)
	if sealed {
		if err := w.decrypt(l, place(path)); err != nil {
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

// comment decrypts a comment, if it is encrypted. SOPS did not always encrypt
// them, and no MAC covers them.
func (w *walk) comment(c *comment, path []string, remarks [][]string) {
	if !w.rules.seal(path, remarks, true) {
		return
	}
	switch v, _ := w.cipher.open(c.text, place(path)); v := v.(type) {
	case remark:
		w.values = append(w.values, string(v))
		c.set(string(v))
	case string:
		c.set(v)
	}
}

// place is what binds a value to where it stands.
func place(path []string) string { return strings.Join(path, ":") + ":" }
