// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Bounds on one commit. A fleet repository holds manifests; what is larger was
// committed by accident, or to hurt us.
const (
	maxPack = 128 << 20 // as sent
	maxTree = 256 << 20 // unpacked
)

// store keeps the objects of one pack in memory, up to a bound.
type store struct {
	*memory.Storage
	size int64
}

func newStore() *store { return &store{Storage: memory.NewStorage()} }

func (s *store) SetEncodedObject(o plumbing.EncodedObject) (plumbing.Hash, error) {
	if s.size += o.Size(); s.size > maxTree {
		return plumbing.ZeroHash, fmt.Errorf("the commit holds more than %d MiB", maxTree>>20)
	}
	return s.Storage.SetEncodedObject(o)
}

// bounded is a reader that fails, rather than ends, once it has read too much.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the server sends more than %d MiB", maxPack>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
