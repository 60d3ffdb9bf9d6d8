// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Attachment reads a file that a field of an object names, of at most limit
// bytes. The name is relative to the directory of the file that defines the
// object, or to the root of the tree if it begins with a slash; no name leads
// out of the tree. The error says which file and what to do.
func Attachment(tree fs.FS, o Object, name string, limit int64) ([]byte, error) {
	rooted, isRooted := strings.CutPrefix(name, "/")
	dir := path.Dir(o.File)
	switch {
	case isRooted:
		name, dir = rooted, "."
	case o.File == "":
		return nil, fmt.Errorf("%s: the file that defines the object is not known: begin with a slash, which is the root of the repository", name)
	}
	file, err := resolve(reference{target: name}, dir)
	if err != nil {
		return nil, err
	}
	data, err := readAttachment(tree, file, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

func readAttachment(tree fs.FS, file string, limit int64) ([]byte, error) {
	f, err := tree.Open(file)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, reason(err)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is not a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("is larger than %d KiB", limit>>10)
	}
	return data, nil
}
