// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"fmt"
	"io"
)

// Limits bound what one commit may cost. A fleet repository holds manifests;
// what is larger was committed by accident, or to hurt us. Zero means the
// default.
type Limits struct {
	// References is how many bytes a remote may use to list its references;
	// default 64 MiB.
	References int64
	// Pack is how many bytes a remote may send for one commit; default 128 MiB.
	Pack int64
	// Tree is how many bytes the objects of one commit may hold; default four
	// times Pack.
	Tree int64
	// Object is how many bytes one file may hold; default half of Pack.
	Object int64
	// Files is how many files, folders and links a commit may hold; default
	// 200,000.
	Files int
}

// The bounds of Pack keep those that follow from it within reason.
const (
	minPack = 1 << 20
	maxPack = 64 << 30
)

func (l Limits) withDefaults() Limits {
	setDefault(&l.References, 64<<20)
	setDefault(&l.Pack, 128<<20)
	setDefault(&l.Tree, 4*l.Pack)
	setDefault(&l.Object, l.Pack/2)
	setDefault(&l.Files, 200_000)
	return l
}

func (l Limits) validate() error {
	if l.Pack < minPack || l.Pack > maxPack {
		return fmt.Errorf("--git-max-pack %d: is not between %s and %s", l.Pack, size(minPack), size(maxPack))
	}
	return nil
}

func setDefault[T int | int64](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// boundError says which limit was reached.
type boundError string

func (e boundError) Error() string { return string(e) }

func exceeds(what string, limit int64) error {
	return boundError(fmt.Sprintf("%s more than %s", what, size(limit)))
}

func size(bytes int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= unit.bytes && bytes%unit.bytes == 0 {
			return fmt.Sprintf("%d %s", bytes/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// bounded is a reader that fails, rather than ends, once it has read too much
// or ctx is done.
type bounded struct {
	alive func() error
	r     io.Reader
	left  int64
	err   error // once nothing is left
}

func newBounded(ctx context.Context, r io.Reader, limit int64, what string) *bounded {
	return &bounded{alive: ctx.Err, r: r, left: limit, err: exceeds(what, limit)}
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.alive(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		// Whoever has sent exactly the limit has not sent too much.
		n, err := io.ReadFull(b.r, make([]byte, 1))
		if n == 0 {
			return 0, err
		}
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
