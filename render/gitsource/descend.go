// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// commitsOnly is a filter that leaves out trees and files.
const commitsOnly = packp.Filter("tree:0")

// Descends answers whether the commit fetched last was made on top of another,
// however many commits lie between. A yes is proven by the commits themselves,
// which name their parents by hash. A server that hides them, or one that does
// not have the other commit any more, is told no.
func (s *Source) Descends(ctx context.Context, from string) (bool, error) {
	if from == s.last.Hash {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	ok, err := s.descends(ctx, plumbing.NewHash(from))
	switch {
	case err == nil:
		return ok, nil
	case ctx.Err() != nil:
		err = outOfTime(ctx, s.options.Timeout)
	default:
		err = plain(err)
	}
	return false, fmt.Errorf("%s: %w", s.options.URL, err)
}

func (s *Source) descends(ctx context.Context, from plumbing.Hash) (bool, error) {
	remote, err := s.remote.open(ctx)
	if err != nil {
		return false, err
	}
	defer remote.close()
	if _, err := remote.list(ctx); err != nil {
		return false, err
	}
	commits, err := remote.since(ctx, s.want, from)
	if err != nil {
		return false, fmt.Errorf("history of %s: %w", s.last.Hash, err)
	}
	return leadsTo(commits, s.want, from), nil
}

// leadsTo walks from a commit, or a tag of one, to its ancestors.
func leadsTo(commits objects, at, to plumbing.Hash) bool {
	seen := map[plumbing.Hash]bool{}
	for queue := []plumbing.Hash{at}; len(queue) > 0; {
		hash := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if hash == to {
			return true
		}
		if seen[hash] {
			continue
		}
		seen[hash] = true
		c, err := commitOf(commits, hash)
		if err != nil {
			continue // the server knows that we have it, or does not want to say
		}
		if c.Hash == to {
			return true
		}
		queue = append(queue, c.ParentHashes...)
	}
	return false
}

// since answers the commits that lead to one and not to the other.
func (s *smartSession) since(ctx context.Context, want, have plumbing.Hash) (_ objects, err error) {
	defer func() { err = s.redacted(err) }()
	request := s.request(want)
	request.Depth = packp.DepthCommits(0)
	request.Capabilities.Delete(capability.Shallow)
	if s.offers.Supports(capability.Filter) {
		request.Filter = commitsOnly
		_ = request.Capabilities.Set(capability.Filter)
	}
	request.Haves = []plumbing.Hash{have}
	encoded, err := encode(request)
	if err != nil {
		return nil, err
	}
	body, err := s.wire.upload(ctx, encoded)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	response := packp.NewUploadPackResponse(request)
	limited := newBounded(ctx, body, s.limits.Pack, "the server sends")
	if err := response.Decode(io.NopCloser(limited)); err != nil {
		return nil, protocolFailure(err)
	}
	return s.packs.borrow(ctx, demultiplex(request.Capabilities, response), s.limits)
}

func (s localSession) since(ctx context.Context, want, have plumbing.Hash) (objects, error) {
	found := looseObjects{}
	for queue := []plumbing.Hash{want}; len(queue) > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hash := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if found.has(hash) || hash == have {
			continue
		}
		o, err := s.store.EncodedObject(plumbing.AnyObject, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue // a shallow repository ends here
		}
		if err != nil {
			return nil, err
		}
		found[hash] = o
		next, err := before(o)
		if err != nil {
			return nil, err
		}
		if queue = append(queue, next...); len(found) > 2*s.limits.Files {
			return nil, boundError(fmt.Sprintf("the history consists of more than %d commits", 2*s.limits.Files))
		}
	}
	return found, nil
}

// before are the parents of a commit, or what a tag points to.
func before(o plumbing.EncodedObject) ([]plumbing.Hash, error) {
	if o.Type() == plumbing.TagObject {
		var tag object.Tag
		err := tag.Decode(o)
		return []plumbing.Hash{tag.Target}, err
	}
	var c object.Commit
	err := c.Decode(o)
	return c.ParentHashes, err
}
