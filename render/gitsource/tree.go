// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// maxEntries bounds a tree, which may name one subtree a thousand times, and
// that one another.
const maxEntries = 200_000

// node is a file, folder, symbolic link or submodule. Nodes never change.
type node struct {
	name     string
	mode     fs.FileMode
	data     []byte  // of a file, or the target of a link
	children []*node // of a folder, by name
	modified time.Time
}

// loader turns git's objects into nodes. Files that are the same share data.
type loader struct {
	store   storer.EncodedObjectStorer
	when    time.Time
	blobs   map[plumbing.Hash][]byte
	size    int64
	entries int
}

// readTree reads a whole tree into memory.
func readTree(ctx context.Context, store storer.EncodedObjectStorer, hash plumbing.Hash, when time.Time) (*tree, error) {
	l := &loader{store: store, when: when, blobs: map[plumbing.Hash][]byte{}}
	root, err := l.folder(ctx, ".", hash)
	if err != nil {
		return nil, err
	}
	return &tree{root}, nil
}

func (l *loader) folder(ctx context.Context, name string, hash plumbing.Hash) (*node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := object.GetTree(l.store, hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	folder := &node{name: path.Base(name), mode: fs.ModeDir | 0o555, modified: l.when}
	for _, e := range t.Entries {
		if !reachable(e.Name) {
			continue
		}
		if l.entries++; l.entries > maxEntries {
			return nil, fmt.Errorf("the commit holds more than %d files", maxEntries)
		}
		child, err := l.entry(ctx, path.Join(name, e.Name), e)
		if err != nil {
			return nil, err
		}
		folder.children = append(folder.children, child)
	}
	slices.SortStableFunc(folder.children, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	folder.children = slices.CompactFunc(folder.children, func(a, b *node) bool { return a.name == b.name })
	return folder, nil
}

// reachable says whether a path can lead to an entry of this name. Git refuses
// to make the others; whoever made one anyway meant harm, and nobody can open it.
func reachable(name string) bool {
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, "/")
}

func (l *loader) entry(ctx context.Context, name string, e object.TreeEntry) (*node, error) {
	n := &node{name: e.Name, modified: l.when}
	switch e.Mode {
	case filemode.Dir:
		return l.folder(ctx, name, e.Hash)
	case filemode.Submodule:
		n.mode = fs.ModeIrregular
		return n, nil
	case filemode.Symlink:
		n.mode = fs.ModeSymlink | 0o777
	default:
		n.mode = 0o444
	}
	var err error
	if n.data, err = l.blob(e.Hash); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (l *loader) blob(hash plumbing.Hash) (data []byte, err error) {
	if data, ok := l.blobs[hash]; ok {
		return data, nil
	}
	blob, err := object.GetBlob(l.store, hash)
	if err != nil {
		return nil, err
	}
	if l.size += blob.Size; l.size > maxTree {
		return nil, fmt.Errorf("the commit holds more than %d MiB", maxTree>>20)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data = make([]byte, blob.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	l.blobs[hash] = data
	return data, nil
}
