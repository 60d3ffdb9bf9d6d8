// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// localRemote reads a repository on this machine, bare or not, without git.
type localRemote struct{ path string }

func (r localRemote) open() (*git.Repository, error) {
	repo, err := git.PlainOpenWithOptions(r.path, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, said{"there is no repository", err}
	}
	return repo, err
}

func (r localRemote) list(context.Context) (references, error) {
	repo, err := r.open()
	if err != nil {
		return references{}, err
	}
	refs := references{branches: map[string]plumbing.Hash{}}
	if head, err := repo.Storer.Reference(plumbing.HEAD); err == nil && head.Target().IsBranch() {
		refs.head = head.Target().Short()
	}
	branches, err := repo.Branches()
	if err != nil {
		return references{}, err
	}
	err = branches.ForEach(func(b *plumbing.Reference) error {
		refs.branches[b.Name().Short()] = b.Hash()
		return nil
	})
	return refs, err
}

func (r localRemote) get(context.Context, plumbing.Hash) (storer.EncodedObjectStorer, error) {
	repo, err := r.open()
	if err != nil {
		return nil, err
	}
	return repo.Storer, nil
}
