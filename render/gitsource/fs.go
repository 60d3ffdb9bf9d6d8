// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// maxLinks is how many symbolic links are followed for one path.
const maxLinks = 40

var errSubmodule = errors.New("is in a submodule, which is fetched with --submodules only")

// tree is a commit's tree. It never changes, so anybody may read it.
type tree struct{ root *node }

var _ interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
} = (*tree)(nil)

// follow says what to do when the last part of a path is a symbolic link.
type follow bool

// find walks to name. Links are followed inside the tree only.
func (t *tree) find(name string, last follow) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	at, rest, links := []*node{t.root}, strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 1 {
				return nil, errors.New("a symbolic link escapes from the repository")
			}
			at = at[:len(at)-1]
			continue
		}
		n, err := at[len(at)-1].child(part)
		if err != nil {
			return nil, err
		}
		if n.mode&fs.ModeSymlink == 0 || len(rest) == 0 && !bool(last) {
			at = append(slices.Clone(at), n)
			continue
		}
		target := n.target
		if links++; links > maxLinks {
			return nil, errors.New("too many levels of symbolic links")
		}
		if path.IsAbs(target) || leaves(path.Join(pathOf(at), target)) {
			return nil, fmt.Errorf("symbolic link %s -> %s escapes from the repository", path.Join(pathOf(at), part), target)
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at[len(at)-1], nil
}

func pathOf(nodes []*node) string {
	var parts []string
	for _, n := range nodes[1:] {
		parts = append(parts, n.name)
	}
	return path.Join(parts...)
}

func leaves(clean string) bool { return clean == ".." || strings.HasPrefix(clean, "../") }

func (n *node) child(name string) (*node, error) {
	if n.mode&fs.ModeIrregular != 0 {
		return nil, errSubmodule
	}
	i, ok := slices.BinarySearchFunc(n.children, name, func(c *node, name string) int { return strings.Compare(c.name, name) })
	if !ok {
		return nil, fs.ErrNotExist
	}
	return n.children[i], nil
}

func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.find(name, true)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	case n.mode&fs.ModeIrregular != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is a submodule, which is fetched with --submodules only")}
	case n.mode.IsDir():
		return &openFolder{info: info{n, path.Base(name)}, left: n.children}, nil
	}
	data, err := n.content()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &openFile{Reader: bytes.NewReader(data), info: info{n, path.Base(name)}}, nil
}

func (t *tree) ReadFile(name string) ([]byte, error) {
	n, err := t.find(name, true)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	case !n.mode.IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is not a file")}
	}
	data, err := n.content()
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.find(name, true)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	case !n.mode.IsDir():
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("is not a directory")}
	default:
		return entries(n.children), nil
	}
}

func (t *tree) Stat(name string) (fs.FileInfo, error) { return t.stat(name, true) }

func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.stat(name, false) }

func (t *tree) stat(name string, last follow) (fs.FileInfo, error) {
	n, err := t.find(name, last)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return info{n, path.Base(name)}, nil
}

func (t *tree) ReadLink(name string) (string, error) {
	n, err := t.find(name, false)
	if err == nil && n.mode&fs.ModeSymlink == 0 {
		err = fs.ErrInvalid
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return n.target, nil
}

// info describes a node under the name it was asked for by: the name of a link
// is not that of the file behind it.
type info struct {
	*node
	name string
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.node.size() }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

func entries(nodes []*node) []fs.DirEntry {
	list := make([]fs.DirEntry, len(nodes))
	for i, n := range nodes {
		list[i] = fs.FileInfoToDirEntry(info{n, n.name})
	}
	return list
}

type openFile struct {
	*bytes.Reader
	info info
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

type openFolder struct {
	info info
	left []*node // not yet read
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFolder) Close() error               { return nil }

func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: errors.New("is a directory")}
}

func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.left) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.left) {
		n = len(f.left)
	}
	list := entries(f.left[:n])
	f.left = f.left[n:]
	return list, nil
}
