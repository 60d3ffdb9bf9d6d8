// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
)

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

var (
	commitHash      = regexp.MustCompile(`^[0-9a-f]{40}$`)
	abbreviatedHash = regexp.MustCompile(`^[0-9a-f]{7,39}$`)
)

// ref is what to follow, as people write it. At most one of full, commit and
// versions is set; without one, name is a branch or a tag.
type ref struct {
	name     string
	full     plumbing.ReferenceName
	commit   plumbing.Hash
	versions *semver.Constraints
}

// parseRef reads a branch, a tag, semver:RANGE, a full reference or the hash of
// a commit.
func parseRef(text string) (ref, error) {
	if versions, ok := strings.CutPrefix(text, "semver:"); ok {
		constraints, err := semver.NewConstraint(versions)
		if err != nil {
			return ref{}, fmt.Errorf("%q is no range of versions: write it like semver:>=1.2 <2", text)
		}
		return ref{name: text, versions: constraints}, nil
	}
	switch {
	case commitHash.MatchString(text):
		return ref{name: text, commit: plumbing.NewHash(text)}, nil
	case strings.HasPrefix(text, "refs/"):
		full := plumbing.ReferenceName(text)
		if full.Validate() != nil {
			return ref{}, fmt.Errorf("%q is no name of a reference", text)
		}
		return ref{name: text, full: full}, nil
	case text == "HEAD" || plumbing.NewBranchReferenceName(text).Validate() != nil:
		return ref{}, fmt.Errorf("%q is no name of a branch or tag", text)
	default:
		return ref{name: text}, nil
	}
}

// references are what a repository has.
type references struct {
	head   string                   // the default branch; "" if unknown
	hashes map[string]plumbing.Hash // by full name
	peeled map[string]plumbing.Hash // of annotated tags: the commit behind them
	// anyCommit says that commits can be had which no reference points to.
	anyCommit bool
}

// target is the commit to have.
type target struct {
	name   string        // of the branch or tag, or the commit's hash
	want   plumbing.Hash // what to ask for: the commit or an annotated tag of it
	commit plumbing.Hash
}

// resolve answers where a ref points, or what there is instead.
func (r references) resolve(f ref) (target, error) {
	switch {
	case len(r.hashes) == 0:
		return target{}, fmt.Errorf("the repository is empty: push to %s", f.name)
	case !f.commit.IsZero():
		return r.resolveCommit(f)
	case f.versions != nil:
		return r.newestVersion(f)
	case f.full != "":
		if _, ok := r.hashes[f.name]; !ok {
			return target{}, fmt.Errorf("no reference %s: %s", f.name, r.instead())
		}
		return r.at(f.name, f.name), nil
	default:
		return r.resolveName(f.name)
	}
}

func (r references) resolveName(name string) (target, error) {
	_, isBranch := r.hashes[branches+name]
	_, isTag := r.hashes[tags+name]
	switch {
	case isBranch && isTag:
		return target{}, fmt.Errorf("%s is a branch and a tag: write %s or %s", name, branches+name, tags+name)
	case isBranch:
		return r.at(branches+name, name), nil
	case isTag:
		return r.at(tags+name, name), nil
	case abbreviatedHash.MatchString(name):
		return target{}, fmt.Errorf("no branch or tag %s: %s; a commit is named by all of its 40 digits", name, r.instead())
	default:
		return target{}, fmt.Errorf("no branch or tag %s: %s", name, r.instead())
	}
}

// at is the target of a full name that is there, shown as name.
func (r references) at(full, name string) target {
	t := target{name: name, want: r.hashes[full], commit: r.hashes[full]}
	if commit, ok := r.peeled[full]; ok {
		t.commit = commit
	}
	return t
}

func (r references) resolveCommit(f ref) (target, error) {
	if _, ok := r.hashes[branches+f.name]; ok {
		return target{}, fmt.Errorf("%s is a commit's hash and a branch: write %s", f.name, branches+f.name)
	}
	t := target{name: f.name, want: f.commit, commit: f.commit}
	if r.anyCommit {
		return t, nil
	}
	for _, full := range slices.Sorted(maps.Keys(r.hashes)) {
		if at := r.at(full, f.name); at.commit == f.commit {
			return at, nil
		}
	}
	return target{}, fmt.Errorf("the server gives no commit that is not the newest of a branch or tag: point a tag at %s and name the tag", f.name)
}

func (r references) newestVersion(f ref) (target, error) {
	var newest *semver.Version
	var found []string // tags of the newest version, more than one if they differ in form only
	for full := range r.hashes {
		tag, ok := strings.CutPrefix(full, tags)
		if !ok {
			continue
		}
		v, err := semver.NewVersion(tag)
		if err != nil || !f.versions.Check(v) {
			continue
		}
		switch {
		case newest == nil || v.GreaterThan(newest):
			newest, found = v, []string{tag}
		case v.Equal(newest):
			found = append(found, tag)
		}
	}
	if newest == nil {
		return target{}, fmt.Errorf("no tag is a version in the range %s: %s", strings.TrimPrefix(f.name, "semver:"), r.versions())
	}
	slices.Sort(found)
	first := r.at(tags+found[0], found[0])
	for _, other := range found[1:] {
		if r.at(tags+other, other).commit != first.commit {
			return target{}, fmt.Errorf("tags %s and %s are the same version and point to different commits: delete one", found[0], other)
		}
	}
	return first, nil
}

// versions lists the tags that are versions, the newest first.
func (r references) versions() string {
	var found []*semver.Version
	for full := range r.hashes {
		if tag, ok := strings.CutPrefix(full, tags); ok {
			if v, err := semver.NewVersion(tag); err == nil {
				found = append(found, v)
			}
		}
	}
	if len(found) == 0 {
		return "there is none at all"
	}
	slices.SortFunc(found, func(a, b *semver.Version) int {
		if c := b.Compare(a); c != 0 {
			return c
		}
		return strings.Compare(a.Original(), b.Original())
	})
	var names []string
	for _, v := range found {
		names = append(names, v.Original())
	}
	return "there is " + some(names)
}

// instead lists the branches, the default first, and not too many.
func (r references) instead() string {
	var names []string
	for full := range r.hashes {
		if name, ok := strings.CutPrefix(full, branches); ok && name != r.head {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if _, ok := r.hashes[branches+r.head]; ok {
		names = slices.Insert(names, 0, r.head+" (the default)")
	}
	if len(names) == 0 {
		return "there is no branch"
	}
	return "there is " + some(names)
}

func some(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

var errNoCommit = errors.New("does not lead to a commit")
