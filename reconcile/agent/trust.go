// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"strings"
	"time"

	"lamplighter.dev/render/gitsource"
	"lamplighter.dev/render/gitsource/signature"
)

// Verify is the object whose signature counts.
type Verify string

const (
	// VerifyCommit wants the commit itself to be signed.
	VerifyCommit Verify = "commit"
	// VerifyTag wants the annotated tag that led to the commit to be signed.
	VerifyTag Verify = "tag"
)

// trust says whether a commit may be read at all. The zero value trusts every
// commit that the remote gives.
type trust struct {
	keysFile string
	object   Verify
}

// keys reads the file anew, so that keys may be added and withdrawn while the
// agent runs.
func (t trust) keys() (signature.Keys, error) {
	file, err := os.ReadFile(t.keysFile)
	if err != nil {
		return signature.Keys{}, fmt.Errorf("--verify-keys: %w", err)
	}
	keys, err := signature.ParseKeys(file)
	if err != nil {
		return signature.Keys{}, fmt.Errorf("--verify-keys: %s: %w", t.keysFile, err)
	}
	return keys, nil
}

// check answers who signed a commit, or why it is not trusted. Without keys it
// answers neither.
func (t trust) check(c gitsource.Commit, now time.Time) (signer string, err error) {
	if t.keysFile == "" {
		return "", nil
	}
	keys, err := t.keys()
	if err != nil {
		return "", err
	}
	var by signature.Signer
	switch {
	case t.object != VerifyTag:
		by, err = keys.VerifyCommit([]byte(c.Object), now)
	case c.TagObject == "":
		return "", fmt.Errorf("%s is no annotated tag, and --verify tag wants a signed one", c.Branch)
	default:
		tag := signature.Tag{Name: strings.TrimPrefix(c.Branch, "refs/tags/"), Commit: c.Hash}
		if by, err = keys.VerifyTag([]byte(c.TagObject), tag, now); err != nil {
			err = fmt.Errorf("tag %s: %w", tag.Name, err)
		}
	}
	if err != nil {
		return "", err
	}
	return by.String(), nil
}
