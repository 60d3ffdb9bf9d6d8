// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// packed is an object of a pack, a difference to the one before it or not.
type packed struct {
	kind plumbing.ObjectType
	data []byte
	base plumbing.Hash // of a difference that names what it differs from
	miss int           // how far before what it differs from it points
}

// packOf writes a pack as it stands, however harmful.
func packOf(t testing.TB, objects []packed) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(&b, binary.BigEndian, uint32(len(objects)))
	last := 0
	for _, o := range objects {
		at := b.Len()
		b.Write(objectHeader(o.kind, len(o.data)))
		if o.kind == plumbing.OFSDeltaObject {
			b.Write(backwards(at - last + o.miss))
		}
		if o.kind == plumbing.REFDeltaObject {
			b.Write(o.base[:])
		}
		z := zlib.NewWriter(&b)
		if _, err := z.Write(o.data); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		last = at
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

func objectHeader(kind plumbing.ObjectType, size int) []byte {
	first := byte(kind)<<4 | byte(size&0x0f)
	if size >>= 4; size == 0 {
		return []byte{first}
	}
	return append([]byte{first | 0x80}, uvarint(uint64(size))...)
}

func uvarint(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// backwards is how far before a difference the object is that it differs from.
func backwards(n int) []byte {
	b := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		b = append([]byte{byte(n&0x7f) | 0x80}, b...)
	}
	return b
}
