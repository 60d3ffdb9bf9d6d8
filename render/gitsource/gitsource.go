// SPDX-License-Identifier: Apache-2.0

// Package gitsource answers what the newest commit of one branch is, and gives
// its tree as an fs.FS straight from the object store. Nothing is checked out,
// nothing is written to disk, and no other program is run.
//
// A Fetch lists the references first: while the branch has not moved, that is
// all it asks. A commit that is new is fetched whole, at depth one and into
// memory of its own, so histories that were rewritten need no care, and a tree
// lives for as long as somebody holds it.
//
//	source, err := gitsource.New(gitsource.Options{URL: "https://git.example/fleet.git"})
//	commit, err := source.Fetch(ctx)
//	data, err := fs.ReadFile(commit.Tree, "clusters/prod/kustomization.yaml")
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Commit is the newest commit of a branch.
type Commit struct {
	Hash, Branch string
	Author       string // the name, or the address of an author without one
	Subject      string // first line of the message
	When         time.Time
	Tree         fs.FS // safe for concurrent use, readable for as long as it is held
}

// Source is one branch of one repository. Its Fetch is for one goroutine at a
// time; the trees of its commits are for any number.
type Source struct {
	options Options
	remote  remote
	last    Commit
}

// New validates the options. It does not look at the repository.
func New(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r, err := newRemote(o)
	if err != nil {
		return nil, err
	}
	return &Source{options: o, remote: r}, nil
}

// remote is a repository somewhere.
type remote interface {
	// list answers where the references point. The session serves one get.
	list(ctx context.Context) (references, error)
	// get answers a store that holds the commit, its tree and its files.
	get(ctx context.Context, commit plumbing.Hash) (storer.EncodedObjectStorer, error)
}

// Fetch answers the newest commit of the branch: the same as before, at the
// cost of one request, while the branch has not moved. After an error the
// commits answered before stay good. An error is one line that starts with the
// URL and holds no credential.
func (s *Source) Fetch(ctx context.Context) (Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	c, err := s.fetch(ctx)
	switch {
	case err == nil:
		s.last = c
		return c, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("no answer in %s: %w", s.options.Timeout, ctx.Err())
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = s.options.plain(err)
	}
	return Commit{}, fmt.Errorf("%s: %w", s.options.URL, err)
}

func (s *Source) fetch(ctx context.Context) (Commit, error) {
	refs, err := s.remote.list(ctx)
	if err != nil {
		return Commit{}, err
	}
	hash, err := refs.branch(s.options.Ref)
	if err != nil {
		return Commit{}, err
	}
	if hash.String() == s.last.Hash {
		return s.last, nil
	}
	store, err := s.remote.get(ctx, hash)
	if err != nil {
		return Commit{}, fmt.Errorf("fetch %s: %w", hash, err)
	}
	c, err := s.read(ctx, store, hash)
	if err != nil {
		return Commit{}, fmt.Errorf("read %s: %w", hash, err)
	}
	return c, nil
}

func (s *Source) read(ctx context.Context, store storer.EncodedObjectStorer, hash plumbing.Hash) (Commit, error) {
	c, err := object.GetCommit(store, hash)
	if err != nil {
		return Commit{}, err
	}
	when := c.Committer.When.UTC()
	tree, err := readTree(ctx, store, c.TreeHash, when)
	if err != nil {
		return Commit{}, err
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	author := c.Author.Name
	if author == "" {
		author = c.Author.Email
	}
	return Commit{
		Hash:    hash.String(),
		Branch:  s.options.Ref,
		Author:  author,
		Subject: strings.TrimSpace(subject),
		When:    when,
		Tree:    tree,
	}, nil
}
