// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// localRemote reads a repository on this machine, bare or not, without git.
type localRemote struct {
	path   string
	limits Limits
}

func (r localRemote) open(context.Context) (session, error) {
	repo, err := git.PlainOpenWithOptions(r.path, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, said{"there is no repository", err}
	}
	if err != nil {
		return nil, err
	}
	return localSession{repo.Storer, r.limits}, nil
}

type localSession struct {
	store  storer.Storer
	limits Limits
}

func (localSession) close() {}

func (s localSession) list(context.Context) (references, error) {
	refs := references{hashes: map[string]plumbing.Hash{}, peeled: map[string]plumbing.Hash{}, anyCommit: true}
	if head, err := s.store.Reference(plumbing.HEAD); err == nil && head.Target().IsBranch() {
		refs.head = head.Target().Short()
	}
	all, err := s.store.IterReferences()
	if err != nil {
		return references{}, err
	}
	err = all.ForEach(func(r *plumbing.Reference) error {
		if r.Type() != plumbing.HashReference {
			return nil
		}
		refs.hashes[r.Name().String()] = r.Hash()
		if r.Name().IsTag() {
			if commit := s.peel(r.Hash()); commit != r.Hash() {
				refs.peeled[r.Name().String()] = commit
			}
		}
		return nil
	})
	return refs, err
}

func (s localSession) peel(hash plumbing.Hash) plumbing.Hash {
	for range maxTags {
		tag, err := object.GetTag(s.store, hash)
		if err != nil {
			return hash
		}
		hash = tag.Target
	}
	return hash
}

// get copies the objects of a commit: git may move or drop them any time.
func (s localSession) get(ctx context.Context, want plumbing.Hash) (objects, error) {
	c := &copier{from: s.store, limits: s.limits, left: s.limits.Tree, to: looseObjects{}}
	return c.to, c.copy(ctx, want)
}

// looseObjects is a store of objects.
type looseObjects map[plumbing.Hash]plumbing.EncodedObject

func (m looseObjects) object(hash plumbing.Hash) (plumbing.EncodedObject, error) {
	o, ok := m[hash]
	if !ok {
		return nil, plumbing.ErrObjectNotFound
	}
	return o, nil
}

func (m looseObjects) has(hash plumbing.Hash) bool { return m[hash] != nil }

func (m looseObjects) size(hash plumbing.Hash) (int64, error) {
	o, err := m.object(hash)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// copier copies what a commit consists of.
type copier struct {
	from   storer.EncodedObjectStorer
	limits Limits
	left   int64
	to     looseObjects
}

func (c *copier) copy(ctx context.Context, hash plumbing.Hash) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.to.has(hash) {
		return nil
	}
	o, err := c.load(hash)
	if err != nil {
		return err
	}
	switch o.Type() {
	case plumbing.TagObject:
		var tag object.Tag
		if err := tag.Decode(o); err != nil {
			return err
		}
		return c.copy(ctx, tag.Target)
	case plumbing.CommitObject:
		var commit object.Commit
		if err := commit.Decode(o); err != nil {
			return err
		}
		return c.copy(ctx, commit.TreeHash)
	case plumbing.TreeObject:
		return c.copyTree(ctx, o)
	default:
		return nil
	}
}

func (c *copier) copyTree(ctx context.Context, o plumbing.EncodedObject) error {
	var t object.Tree
	if err := t.Decode(o); err != nil {
		return err
	}
	for _, e := range t.Entries {
		if e.Mode == filemode.Submodule {
			continue
		}
		if err := c.copy(ctx, e.Hash); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return nil
}

func (c *copier) load(hash plumbing.Hash) (plumbing.EncodedObject, error) {
	length, err := c.from.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if length > c.limits.Object {
		return nil, exceeds("the commit has a file of", c.limits.Object)
	}
	if c.left -= length; c.left < 0 {
		return nil, exceeds("the commit holds", c.limits.Tree)
	}
	if len(c.to) >= 2*c.limits.Files {
		return nil, boundError(fmt.Sprintf("the commit consists of more than %d objects", 2*c.limits.Files))
	}
	o, err := c.from.EncodedObject(plumbing.AnyObject, hash)
	if err != nil {
		return nil, err
	}
	data, err := read(o)
	if err != nil {
		return nil, err
	}
	kept := new(plumbing.MemoryObject)
	kept.SetType(o.Type())
	_, err = kept.Write(data)
	c.to[hash] = kept
	return kept, err
}
