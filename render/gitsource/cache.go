// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-git/v5/plumbing"
)

// packs keeps the packs of the newest commit in a folder, or in memory if it
// has none. A pack that is lost is fetched again, and one that somebody reads
// stays readable after it is deleted.
type packs struct{ dir string }

// packName is a pack that is named by the commit it holds, or that is not
// complete yet.
var packName = regexp.MustCompile(`^(?:[0-9a-f]{40}|incoming-[0-9]+)\.pack$`)

func (c packs) path(commit plumbing.Hash) string {
	return filepath.Join(c.dir, commit.String()+".pack")
}

// open answers the pack of a commit if it is there and whole. What is there may
// have been left by anybody, so it is checked like what a server sends.
func (c packs) open(ctx context.Context, commit plumbing.Hash, l Limits) (_ *pack, err error) {
	if c.dir == "" {
		return nil, os.ErrNotExist
	}
	f, err := os.Open(c.path(commit))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	listed, err := receive(ctx, newBounded(ctx, f, l.Pack, "the pack holds"), io.Discard, l)
	if err != nil {
		return nil, err
	}
	p, err := openPack(ctx, diskFile{f}, listed)
	if err != nil {
		return nil, err
	}
	if !p.has(commit) {
		return nil, plumbing.ErrObjectNotFound
	}
	return p, nil
}

// add takes in the pack of a commit.
func (c packs) add(ctx context.Context, commit plumbing.Hash, r io.Reader, l Limits) (*pack, error) {
	f, err := c.create()
	if err != nil {
		return nil, err
	}
	p, err := c.fill(ctx, f, r, l)
	if err != nil {
		return nil, errors.Join(err, c.discard(f))
	}
	if c.dir != "" {
		if err := os.Rename(f.Name(), c.path(commit)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(c.failure(err), c.discard(f))
		}
	}
	return p, nil
}

// borrow takes in a pack that nobody needs again. It has no name once it is
// read, so nothing of it stays in the folder.
func (c packs) borrow(ctx context.Context, r io.Reader, l Limits) (*pack, error) {
	f, err := c.create()
	if err != nil {
		return nil, err
	}
	if c.dir != "" {
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(c.failure(err), f.Close())
		}
	}
	p, err := c.fill(ctx, f, r, l)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

func (c packs) fill(ctx context.Context, f billy.File, r io.Reader, l Limits) (*pack, error) {
	listed, err := receive(ctx, r, cacheWriter{c, f}, l)
	if err != nil {
		return nil, err
	}
	return openPack(ctx, f, listed)
}

// cacheWriter tells a folder that is full from a server that sends nonsense.
type cacheWriter struct {
	cache packs
	w     io.Writer
}

func (w cacheWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		err = w.cache.failure(err)
	}
	return n, err
}

// failure names the folder, not the file, which has another name each time.
func (c packs) failure(err error) error {
	cause := err
	if e, ok := errors.AsType[*os.PathError](err); ok {
		cause = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		cause = e.Err
	}
	return said{fmt.Sprintf("cache %s: %v", c.dir, cause), err}
}

func (c packs) create() (billy.File, error) {
	if c.dir == "" {
		return memfs.New().Create("pack")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, c.failure(err)
	}
	f, err := os.CreateTemp(c.dir, "incoming-*.pack")
	if err != nil {
		return nil, c.failure(err)
	}
	return diskFile{f}, nil
}

func (c packs) discard(f billy.File) error {
	err := f.Close()
	if c.dir != "" {
		if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// keep deletes all packs but those of these commits. What it cannot delete it
// tries again next time.
func (c packs) keep(commits ...plumbing.Hash) {
	if c.dir == "" {
		return
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return // nothing there to delete
	}
	for _, e := range entries {
		current := slices.ContainsFunc(commits, func(h plumbing.Hash) bool { return e.Name() == h.String()+".pack" })
		if packName.MatchString(e.Name()) && !current {
			_ = os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
}

// diskFile is a file that nobody else writes to, so there is nothing to lock.
type diskFile struct{ *os.File }

func (diskFile) Lock() error   { return nil }
func (diskFile) Unlock() error { return nil }
