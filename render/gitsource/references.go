// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// references are the branches of a repository.
type references struct {
	head     string // the default branch; "" if unknown
	branches map[string]plumbing.Hash
}

// branch answers where a branch points, or what there is instead.
func (r references) branch(name string) (plumbing.Hash, error) {
	if hash, ok := r.branches[name]; ok {
		return hash, nil
	}
	if len(r.branches) == 0 {
		return plumbing.ZeroHash, fmt.Errorf("the repository is empty: push to branch %s", name)
	}
	return plumbing.ZeroHash, fmt.Errorf("no branch %s: there is %s", name, r.names())
}

// names lists the branches, the default first, and not too many.
func (r references) names() string {
	const most = 10
	var names []string
	for name := range r.branches {
		if name != r.head {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if _, ok := r.branches[r.head]; ok {
		names = slices.Insert(names, 0, r.head+" (the default)")
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
