// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// objects are what a commit consists of. They never change, and anybody may
// read them.
type objects interface {
	// object answers one of any kind, or plumbing.ErrObjectNotFound.
	object(hash plumbing.Hash) (plumbing.EncodedObject, error)
	has(hash plumbing.Hash) bool
	// size is how many bytes an object holds.
	size(hash plumbing.Hash) (int64, error)
}

// pack is a file of objects. It is read where it is: nothing is unpacked before
// somebody asks for it.
type pack struct {
	mu    sync.Mutex
	file  *packfile.Packfile
	index idxfile.Index
}

var errChanged = errors.New("the cache was changed while it was read")

// maxBases bounds the unpacked objects that are kept since others are stored as
// differences to them.
const maxBases = 4 * cache.MiByte

// receive copies a pack from r to w, and lists the objects that come by. What is
// too large is refused before it is unpacked.
func receive(ctx context.Context, r io.Reader, w io.Writer, l Limits) (*listing, error) {
	scanner := packfile.NewScanner(struct{ io.Reader }{io.TeeReader(r, w)})
	_, count, err := scanner.Header()
	if err != nil {
		return nil, brokenPack(err)
	}
	if int64(count) > 2*int64(l.Files) {
		return nil, boundError(fmt.Sprintf("the commit consists of more than %d objects", 2*l.Files))
	}
	listed := newListing()
	left := l.Tree
	for range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := receiveObject(scanner, l)
		if err != nil {
			return nil, err
		}
		if left -= s.size; left < 0 {
			return nil, exceeds("the commit holds", l.Tree)
		}
		if err := listed.add(s); err != nil {
			return nil, brokenPack(err)
		}
	}
	if listed.checksum, err = scanner.Checksum(); err != nil {
		return nil, brokenPack(err)
	}
	return listed, nil
}

func receiveObject(scanner *packfile.Scanner, l Limits) (*stored, error) {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return nil, brokenPack(err)
	}
	if !isKind(header.Type) {
		return nil, brokenPack(packfile.ErrMalformedPackFile)
	}
	tooLarge := exceeds("the commit has a file of", l.Object)
	if header.Length > l.Object {
		return nil, tooLarge
	}
	var start head
	name := plumbing.NewHasher(header.Type, header.Length)
	n, crc, err := scanner.NextObject(io.MultiWriter(&start, name))
	if err != nil {
		return nil, brokenPack(err)
	}
	if n != header.Length {
		return nil, brokenPack(packfile.ErrMalformedPackFile)
	}
	s := &stored{ObjectHeader: *header, crc: crc, size: header.Length}
	if !header.Type.IsDelta() {
		s.hash = name.Sum()
	} else if s.size = start.deltaResult(); s.size > l.Object || s.size < 0 {
		return nil, tooLarge
	}
	return s, nil
}

// isKind says whether Git has objects of a kind: of the numbers that fit, some
// are left over.
func isKind(t plumbing.ObjectType) bool {
	switch t {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject, plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		return true
	default:
		return false
	}
}

// brokenPack keeps our own errors, and says all others in one way: where a pack
// breaks off is another place each time.
func brokenPack(err error) error {
	if bound, ok := errors.AsType[boundError](err); ok {
		return bound
	}
	if ours, ok := errors.AsType[said](err); ok {
		return ours
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return said{"the server sends objects that are cut short or broken", err}
}

// head keeps the first bytes of an object.
type head struct {
	bytes [2 * binary.MaxVarintLen64]byte
	n     int
}

func (h *head) Write(p []byte) (int, error) {
	h.n += copy(h.bytes[h.n:], p)
	return len(p), nil
}

// deltaResult is the size of what a difference makes: the second of the two
// numbers that it starts with. It is negative if there is none.
func (h *head) deltaResult() int64 {
	_, n := binary.Uvarint(h.bytes[:h.n])
	if n <= 0 {
		return -1
	}
	result, n := binary.Uvarint(h.bytes[n:h.n])
	if n <= 0 {
		return -1
	}
	return int64(result)
}

// openPack opens a pack that was listed when it came. That verifies all objects,
// since they are named by their content.
func openPack(ctx context.Context, f billy.File, listed *listing) (*pack, error) {
	index, err := listed.index(ctx, f)
	if err != nil {
		return nil, brokenPack(err)
	}
	return &pack{index: index, file: packfile.NewPackfileWithCache(index, nil, f, cache.NewObjectLRU(maxBases), 0)}, nil
}

// untilDone fails to read once its time is over.
type untilDone struct {
	io.ReadSeeker
	alive func() error
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.alive(); err != nil {
		return 0, err
	}
	return u.ReadSeeker.Read(p)
}

func (p *pack) object(hash plumbing.Hash) (plumbing.EncodedObject, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, err := p.file.Get(hash)
	if err != nil {
		return nil, err
	}
	if o.Hash() != hash { // the file was whole once, and somebody wrote to it since
		return nil, errChanged
	}
	return o, nil
}

func (p *pack) has(hash plumbing.Hash) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, err := p.index.Contains(hash)
	return ok && err == nil
}

func (p *pack) size(hash plumbing.Hash) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	offset, err := p.index.FindOffset(hash)
	if err != nil {
		return 0, err
	}
	return p.file.GetSizeByOffset(offset)
}
