// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"errors"
)

// Git LFS leaves a small file with a pointer in place of a large one.
const (
	pointerStart = "version https://git-lfs.github.com/spec/"
	maxPointer   = 1024
)

var errPointer = errors.New("is a pointer of Git LFS, which is not fetched: commit the file itself")

// refusePointer says that a file holds a pointer, not what people think.
func refusePointer(data []byte) error {
	if len(data) <= maxPointer && bytes.HasPrefix(data, []byte(pointerStart)) {
		return errPointer
	}
	return nil
}
