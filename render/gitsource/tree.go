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
)

// maxLink is the longest target of a symbolic link, as Linux has it.
const maxLink = 4096

// node is a file, folder, symbolic link or submodule. Nodes never change.
type node struct {
	name     string
	mode     fs.FileMode
	hash     plumbing.Hash
	store    objects // of a file: where its content is
	target   string  // of a link
	children []*node // of a folder, by name
	modified time.Time
}

// content is what a file holds. It belongs to the caller.
func (n *node) content() ([]byte, error) {
	o, err := n.store.object(n.hash)
	if err != nil {
		return nil, err
	}
	data, err := read(o)
	if err != nil {
		return nil, err
	}
	return data, refusePointer(data)
}

func (n *node) size() int64 {
	switch {
	case n.mode&fs.ModeSymlink != 0:
		return int64(len(n.target))
	case n.store == nil:
		return 0
	}
	size, err := n.store.size(n.hash)
	if err != nil {
		return 0 // whoever reads it is told
	}
	return size
}

func read(o plumbing.EncodedObject) (data []byte, err error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data = make([]byte, o.Size())
	_, err = io.ReadFull(r, data)
	return data, err
}

// treeOptions are the same for a whole tree, its submodules included.
type treeOptions struct {
	when  time.Time
	files *quota
}

// quota is how many files there may be.
type quota struct{ limit, used int }

func (q *quota) take() error {
	if q.used++; q.used > q.limit {
		return boundError(fmt.Sprintf("the commit holds more than %d files", q.limit))
	}
	return nil
}

// loader turns git's objects into nodes. The content of files is not loaded.
type loader struct {
	treeOptions
	store objects
}

// readTree reads the names of a whole tree into memory, and makes sure that
// everything they name is there.
func readTree(ctx context.Context, store objects, hash plumbing.Hash, o treeOptions) (*tree, error) {
	l := &loader{treeOptions: o, store: store}
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
	o, err := l.store.object(hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var t object.Tree
	if err := t.Decode(o); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	folder := &node{name: path.Base(name), mode: fs.ModeDir | 0o555, modified: l.when}
	for _, e := range t.Entries {
		if !reachable(e.Name) {
			continue
		}
		// A tree may name one subtree a thousand times, and that one another.
		if err := l.files.take(); err != nil {
			return nil, err
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
	n := &node{name: e.Name, hash: e.Hash, modified: l.when}
	switch e.Mode {
	case filemode.Dir:
		return l.folder(ctx, name, e.Hash)
	case filemode.Submodule:
		n.mode = fs.ModeIrregular
		return n, nil
	case filemode.Symlink:
		n.mode = fs.ModeSymlink | 0o777
		target, err := l.link(e.Hash)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		n.target = target
		return n, nil
	default:
		if !l.store.has(e.Hash) {
			return nil, fmt.Errorf("%s: %w", name, plumbing.ErrObjectNotFound)
		}
		n.mode, n.store = 0o444, l.store
		return n, nil
	}
}

func (l *loader) link(hash plumbing.Hash) (string, error) {
	o, err := l.store.object(hash)
	if err != nil {
		return "", err
	}
	if o.Size() > maxLink {
		return "", boundError(fmt.Sprintf("a symbolic link of more than %s", size(maxLink)))
	}
	target, err := read(o)
	return string(target), err
}
