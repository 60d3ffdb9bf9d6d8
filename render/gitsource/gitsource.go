// SPDX-License-Identifier: Apache-2.0

// Package gitsource answers what the newest commit of one branch, tag or range
// of versions is, and gives its tree as an fs.FS straight from the object
// store. Nothing is checked out and no other program is run; what git's
// configuration on this machine says does not matter.
//
// A Fetch lists the references first: while the commit is the same, that is all
// it asks. A commit that is new is fetched whole, at depth one and into a pack
// of its own, so histories that were rewritten need no care, and a tree lives
// for as long as somebody holds it.
//
//	source, err := gitsource.New(gitsource.Options{URL: "https://git.example/fleet.git"})
//	commit, err := source.Fetch(ctx)
//	data, err := fs.ReadFile(commit.Tree, "clusters/prod/kustomization.yaml")
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Commit is the commit to be in force.
type Commit struct {
	Hash    string
	Branch  string // the branch or tag that led to it, or its hash
	Author  string // the name, or the address of an author without one
	Subject string // first line of the message
	When    time.Time
	Tree    fs.FS // safe for concurrent use, readable for as long as it is held

	// Object is the commit as Git stores it, and TagObject the annotated tag
	// that led to it, empty if none did: what signatures are made over.
	Object, TagObject string
}

// Source is one branch, tag or range of versions of one repository. Its Fetch
// is for one goroutine at a time; the trees of its commits are for any number.
type Source struct {
	options Options
	ref     ref
	at      address
	remote  remote
	packs   packs
	last    Commit
	want    plumbing.Hash // what led to last: its hash or that of a tag
}

// New validates the options. It does not look at the repository.
func New(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	follow, err := parseRef(o.Ref)
	if err != nil {
		return nil, err
	}
	at, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	return &Source{options: o, ref: follow, at: at, remote: o.remote(at), packs: packs{o.Cache}}, nil
}

// remote is a repository somewhere.
type remote interface {
	open(ctx context.Context) (session, error)
}

// session is one conversation with a remote: one list, then at most one get.
type session interface {
	list(ctx context.Context) (references, error)
	// get answers the objects of a commit, or of a tag of one.
	get(ctx context.Context, want plumbing.Hash) (objects, error)
	// since answers the commits that lead to one, those that lead to another
	// left out as far as the remote knows them. It takes the place of get.
	since(ctx context.Context, want, have plumbing.Hash) (objects, error)
	close()
}

func (o Options) remote(at address) remote {
	switch at.scheme {
	case "file":
		return localRemote{at.path, o.Limits}
	case "ssh":
		return smartRemote{&sshRemote{at, o}, o.Limits, packs{o.Cache}}
	default:
		return smartRemote{&httpRemote{at, o, &tokens{now: o.Now}}, o.Limits, packs{o.Cache}}
	}
}

// Fetch answers the newest commit: the same as before, at the cost of one
// request, while it has not changed. After an error the commits answered before
// stay good. An error is one line that starts with the URL, holds no
// credential, and is the same while the same is wrong.
func (s *Source) Fetch(ctx context.Context) (Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	c, err := s.fetch(ctx)
	switch {
	case err == nil:
		s.last = c
		return c, nil
	case ctx.Err() != nil:
		err = outOfTime(ctx, s.options.Timeout)
	default:
		err = plain(err)
	}
	return Commit{}, fmt.Errorf("%s: %w", s.options.URL, err)
}

func (s *Source) fetch(ctx context.Context) (Commit, error) {
	if !s.ref.commit.IsZero() && s.ref.commit.String() == s.last.Hash {
		return s.last, nil // a commit does not change
	}
	remote, err := s.remote.open(ctx)
	if err != nil {
		return Commit{}, err
	}
	defer remote.close()
	refs, err := remote.list(ctx)
	if err != nil {
		return Commit{}, err
	}
	t, err := refs.resolve(s.ref)
	if err != nil {
		return Commit{}, err
	}
	if t.commit.String() == s.last.Hash && t.name == s.last.Branch && t.want == s.want {
		return s.last, nil
	}
	store, err := remote.get(ctx, t.want)
	if err != nil {
		return Commit{}, fmt.Errorf("fetch %s: %w", t.commit, err)
	}
	c, err := s.read(ctx, store, t)
	if err != nil {
		return Commit{}, fmt.Errorf("read %s: %w", t.commit, err)
	}
	s.want = t.want
	return c, nil
}

// maxTags is how many annotated tags may lead to one another.
const maxTags = 5

func (s *Source) read(ctx context.Context, store objects, t target) (Commit, error) {
	c, err := commitOf(store, t.want)
	if err != nil {
		return Commit{}, err
	}
	if c.Hash != t.commit {
		return Commit{}, fmt.Errorf("%s %w", t.name, errNoCommit)
	}
	when := c.Committer.When.UTC()
	options := treeOptions{when: when, files: &quota{limit: s.options.Limits.Files}}
	tree, err := readTree(ctx, store, c.TreeHash, options)
	if err != nil {
		return Commit{}, err
	}
	modules := submodules{options: s.options, tree: options}
	if s.options.Submodules {
		if err := modules.fill(ctx, tree, s.at, 1); err != nil {
			return Commit{}, err
		}
	}
	s.packs.keep(append(modules.fetched, t.want)...)
	text, err := textOf(store, t.commit)
	if err != nil {
		return Commit{}, err
	}
	tag := ""
	if t.want != t.commit {
		if tag, err = textOf(store, t.want); err != nil {
			return Commit{}, err
		}
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	author := c.Author.Name
	if author == "" {
		author = c.Author.Email
	}
	return Commit{
		Hash:      c.Hash.String(),
		Branch:    t.name,
		Author:    author,
		Subject:   strings.TrimSpace(subject),
		When:      when,
		Tree:      tree,
		Object:    text,
		TagObject: tag,
	}, nil
}

// textOf answers an object as Git stores it.
func textOf(store objects, hash plumbing.Hash) (text string, err error) {
	o, err := store.object(hash)
	if err != nil {
		return "", err
	}
	r, err := o.Reader()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err := io.ReadAll(r)
	return string(data), err
}

// commitOf answers the commit that an object is or leads to.
func commitOf(store objects, hash plumbing.Hash) (*object.Commit, error) {
	for range maxTags {
		o, err := store.object(hash)
		if err != nil {
			return nil, err
		}
		switch o.Type() {
		case plumbing.CommitObject:
			c := new(object.Commit)
			return c, c.Decode(o)
		case plumbing.TagObject:
			var tag object.Tag
			if err := tag.Decode(o); err != nil {
				return nil, err
			}
			hash = tag.Target
		default:
			return nil, fmt.Errorf("a %s, where a commit should be", o.Type())
		}
	}
	return nil, errNoCommit
}
