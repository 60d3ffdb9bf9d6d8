// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"io/fs"
	"slices"
)

// Decryptor reads files that are encrypted in the tree. It answers from what it
// is given alone.
type Decryptor interface {
	// Decrypt answers a file in plain text, and the values that were encrypted,
	// which no error of a build shows. A file that is not encrypted is answered as
	// it is.
	Decrypt(name string, data []byte) (plain []byte, values []string, err error)
	// ID is the same for two that read every file alike.
	ID() string
}

// DecryptError is a file that is encrypted and could not be read. Other keys
// may mend it.
type DecryptError struct{ err error }

func (e *DecryptError) Error() string { return e.err.Error() }
func (e *DecryptError) Unwrap() error { return e.err }

// Builder builds one tree after another. It builds nothing again as long as no
// file that the last build read is another, whatever else changes in the tree.
// The zero value is ready. It is not for concurrent use.
type Builder struct {
	// Decryptor reads encrypted files. Nil leaves them as they are.
	Decryptor Decryptor

	last memory
}

// memory is the last build that succeeded.
type memory struct {
	root, decryptor string
	built
}

// Build is [Build], or what the last one has built. The objects are those of
// the last build then, so nobody may change them.
func (b *Builder) Build(ctx context.Context, tree fs.FS, path string) (Output, error) {
	root, err := cleanPath(path)
	if err != nil {
		return Output{}, err
	}
	next := memory{root: root}
	if b.Decryptor != nil {
		next.decryptor = b.Decryptor.ID()
	}
	if b.last.root == next.root && b.last.decryptor == next.decryptor && b.last.inputs.same(ctx, tree) {
		return b.last.output.clone(), nil
	}
	if next.built, err = kustomize.build(ctx, job{tree: tree, root: root, decryptor: b.Decryptor}); err != nil {
		return Output{}, err
	}
	b.last = next
	return next.output.clone(), nil
}

// clone copies the lists, not the objects.
func (o Output) clone() Output {
	return Output{Objects: slices.Clone(o.Objects), Policies: slices.Clone(o.Policies), encrypted: o.encrypted}
}
