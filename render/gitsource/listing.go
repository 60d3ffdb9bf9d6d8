// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// maxDepth is how many differences may be between an object and one that is
// stored whole. It is git's own bound.
const maxDepth = 4095

// stored is an object as a pack has it: whole, or as the difference to another.
type stored struct {
	packfile.ObjectHeader
	crc  uint32
	hash plumbing.Hash // of a difference it is known once its base is
	size int64         // of the object itself
	// above are the objects that are stored as differences to this one, weight is
	// how many there are with all that are above them.
	above  []*stored
	weight int
}

// listing is what a pack consists of, in its order. go-git's own parser keeps
// up to 96 MiB of what others differ from; this one goes from each object that is
// stored whole to those above it, and holds what is still to be differed from:
// mostly one object at a time.
type listing struct {
	checksum plumbing.Hash
	all      []*stored
	byOffset map[int64]*stored
	// byName are those that name what they differ from, which may come later.
	byName map[plumbing.Hash][]*stored
}

func newListing() *listing {
	return &listing{byOffset: map[int64]*stored{}, byName: map[plumbing.Hash][]*stored{}}
}

// add takes the next object in.
func (l *listing) add(s *stored) error {
	switch s.Type {
	case plumbing.OFSDeltaObject:
		base, ok := l.byOffset[s.OffsetReference]
		if !ok {
			return fmt.Errorf("%w: nothing begins at %d", packfile.ErrMalformedPackFile, s.OffsetReference)
		}
		base.above = append(base.above, s)
	case plumbing.REFDeltaObject:
		l.byName[s.Reference] = append(l.byName[s.Reference], s)
	}
	l.all = append(l.all, s)
	l.byOffset[s.Offset] = s
	return nil
}

// index names the differences and answers where each object is.
func (l *listing) index(ctx context.Context, f io.ReadSeeker) (idxfile.Index, error) {
	l.weigh()
	u := unpacker{scanner: packfile.NewScanner(untilDone{f, ctx.Err}), byName: l.byName}
	for _, s := range l.all {
		if !s.Type.IsDelta() {
			if err := u.start(s); err != nil {
				return nil, err
			}
		}
	}
	writer := new(idxfile.Writer)
	for _, s := range l.all {
		if s.hash.IsZero() {
			return nil, fmt.Errorf("%w: an object differs from one that is not there", packfile.ErrMalformedPackFile)
		}
		writer.Add(s.hash, uint64(s.Offset), s.crc)
	}
	if err := writer.OnFooter(l.checksum); err != nil {
		return nil, err
	}
	return writer.Index()
}

// weigh counts what is above each object. What is above one in this way comes
// after it.
func (l *listing) weigh() {
	for _, s := range slices.Backward(l.all) {
		s.weight++
		if s.Type == plumbing.OFSDeltaObject {
			l.byOffset[s.OffsetReference].weight += s.weight
		}
	}
}

// unpacker makes the objects that are stored as differences, to name them.
type unpacker struct {
	scanner *packfile.Scanner
	byName  map[plumbing.Hash][]*stored
}

// start makes all that is above an object that is stored whole.
func (u *unpacker) start(s *stored) error {
	if u.gather(s); len(s.above) == 0 {
		return nil
	}
	content, err := u.read(s)
	if err != nil {
		return err
	}
	return u.climb(s, s.Type, content, 0)
}

// gather adds those above an object that know it by its name, and puts those last
// that have the most above them.
func (u *unpacker) gather(s *stored) {
	s.above = append(s.above, u.byName[s.hash]...)
	delete(u.byName, s.hash)
	slices.SortStableFunc(s.above, func(a, b *stored) int { return cmp.Compare(a.weight, b.weight) })
}

// climb makes all that is above an object. It lets go of the content on the way
// to the last of them, which has the most above it. So of n objects the contents
// of log n are held at most, and of one in a row that do not fork.
func (u *unpacker) climb(s *stored, kind plumbing.ObjectType, content []byte, depth int) error {
	for ; len(s.above) > 0; depth++ {
		if depth == maxDepth {
			return fmt.Errorf("%w: more than %d differences on one another", packfile.ErrMalformedPackFile, maxDepth)
		}
		last := len(s.above) - 1
		for _, next := range s.above[:last] {
			made, err := u.patch(next, kind, content)
			if err != nil {
				return err
			}
			if err := u.climb(next, kind, made, depth+1); err != nil {
				return err
			}
		}
		s = s.above[last]
		made, err := u.patch(s, kind, content)
		if err != nil {
			return err
		}
		content = made
	}
	return nil
}

// patch answers the content of an object that differs from a base, and names it.
func (u *unpacker) patch(s *stored, kind plumbing.ObjectType, base []byte) ([]byte, error) {
	delta, err := u.read(s)
	if err != nil {
		return nil, err
	}
	var start head
	if _, err := start.Write(delta); err != nil {
		return nil, err
	}
	if start.deltaResult() != s.size {
		return nil, errChanged
	}
	content, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, err
	}
	s.hash = plumbing.ComputeHash(kind, content)
	u.gather(s)
	return content, nil
}

// read answers what is stored of an object. It was bounded when it came.
func (u *unpacker) read(s *stored) ([]byte, error) {
	header, err := u.scanner.SeekObjectHeader(s.Offset)
	if err != nil {
		return nil, err
	}
	if header.Length != s.Length {
		return nil, errChanged
	}
	content := bytes.NewBuffer(make([]byte, 0, s.Length))
	_, _, err = u.scanner.NextObject(content)
	return content.Bytes(), err
}
