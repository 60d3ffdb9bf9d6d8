// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"
)

// inputs are what a build asked of a tree, and what it was answered. A build is
// a function of them: a tree that answers the same renders to the same.
type inputs map[question]string

// question is what may be asked about a path.
type question struct {
	about subject
	name  string
}

type subject string

const (
	contentOf subject = "content"
	kindOf    subject = "kind"
	entriesOf subject = "entries"
)

// same says whether tree answers every question as it was answered. Without
// questions there is nothing to go by.
func (in inputs) same(ctx context.Context, tree fs.FS) bool {
	for q, answer := range in {
		if ctx.Err() != nil || ask(tree, q) != answer {
			return false
		}
	}
	return len(in) > 0
}

func ask(tree fs.FS, q question) string {
	switch q.about {
	case contentOf:
		return digest(readFile(tree, q.name))
	case kindOf:
		return kind(fs.Stat(tree, q.name))
	default:
		return listing(fs.ReadDir(tree, q.name))
	}
}

func digest(data []byte, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func kind(info fs.FileInfo, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case info.IsDir():
		return "directory"
	default:
		return "file"
	}
}

func listing(entries []fs.DirEntry, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, "/")
}
