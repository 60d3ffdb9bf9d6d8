// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
)

const (
	maxSubmodules      = 20 // of one commit, those of submodules too
	maxSubmoduleLevels = 3
	modulesFile        = ".gitmodules"
)

// submodules fetches the submodules of one commit and puts their trees in
// place.
type submodules struct {
	options Options
	tree    treeOptions
	fetched []plumbing.Hash
}

// fill fetches the submodules of a tree that is at an address.
func (s *submodules) fill(ctx context.Context, t *tree, at address, level int) error {
	found := modulesIn(t.root, "")
	if len(found) == 0 {
		return nil
	}
	if level > maxSubmoduleLevels {
		return fmt.Errorf("submodules of submodules, more than %d deep", maxSubmoduleLevels)
	}
	urls, err := submoduleURLs(t)
	if err != nil {
		return err
	}
	for _, m := range found {
		if err := s.fetch(ctx, m, urls[m.path], at, level); err != nil {
			return fmt.Errorf("submodule %s: %w", m.path, err)
		}
	}
	return nil
}

// module is where a tree has a submodule.
type module struct {
	path string
	node *node
}

func modulesIn(n *node, at string) []module {
	var found []module
	for _, child := range n.children {
		p := path.Join(at, child.name)
		if child.mode&fs.ModeIrregular != 0 {
			found = append(found, module{p, child})
		}
		found = append(found, modulesIn(child, p)...)
	}
	return found
}

// submoduleURLs are what .gitmodules says, by path.
func submoduleURLs(t *tree) (map[string]string, error) {
	data, err := fs.ReadFile(t, modulesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	modules := config.NewModules()
	if err := modules.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("%s: %w", modulesFile, err)
	}
	urls := map[string]string{}
	for _, m := range modules.Submodules {
		urls[path.Clean(m.Path)] = m.URL
	}
	return urls, nil
}

func (s *submodules) fetch(ctx context.Context, m module, url string, parent address, level int) error {
	at, err := parent.relative(url)
	if err != nil {
		return err
	}
	if s.fetched = append(s.fetched, m.node.hash); len(s.fetched) > maxSubmodules {
		return fmt.Errorf("there are more than %d", maxSubmodules)
	}
	store, err := s.objects(ctx, at, m.node.hash)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	c, err := commitOf(store, m.node.hash)
	if err != nil {
		return err
	}
	t, err := readTree(ctx, store, c.TreeHash, s.tree)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, t, at, level+1); err != nil {
		return err
	}
	m.node.mode, m.node.children = t.root.mode, t.root.children
	return nil
}

// objects asks for a commit, unless it is here since the last time.
func (s *submodules) objects(ctx context.Context, at address, commit plumbing.Hash) (objects, error) {
	if p, err := (packs{s.options.Cache}).open(ctx, commit, s.options.Limits); err == nil {
		return p, nil
	}
	remote, err := s.options.remote(at).open(ctx)
	if err != nil {
		return nil, err
	}
	defer remote.close()
	refs, err := remote.list(ctx)
	if err != nil {
		return nil, err
	}
	t, err := refs.resolve(ref{name: commit.String(), commit: commit})
	if err != nil {
		return nil, err
	}
	return remote.get(ctx, t.want)
}

// relative is the address that a relative URL leads to, as git has it: the
// parent counts as a folder. Every other URL is refused, for credentials are
// sent there.
func (a address) relative(url string) (address, error) {
	switch {
	case url == "":
		return address{}, fmt.Errorf("%s does not name its URL", modulesFile)
	case !strings.HasPrefix(url, "./") && !strings.HasPrefix(url, "../"):
		return address{}, errors.New("its URL is not relative, like ../base.git: others are not fetched")
	}
	rooted := strings.HasPrefix(a.path, "/")
	joined := path.Join(strings.TrimPrefix(a.path, "/"), url)
	if joined == "." || leaves(joined) || strings.HasPrefix(joined, "-") {
		return address{}, errors.New("its URL leads out of the server")
	}
	if rooted {
		joined = "/" + joined
	}
	a.path = joined
	return a, nil
}
