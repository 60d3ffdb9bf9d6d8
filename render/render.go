// SPDX-License-Identifier: Apache-2.0

// Package render answers what a tree asks for: the Kubernetes objects and the
// policy kinds of one directory, as kustomize builds them.
//
// A build is a function of the tree it is given. It never touches the disk,
// the network or another process: remote bases, helm charts, plugins and
// paths that leave the tree are refused by name before kustomize starts.
// Kustomize keeps state in the process, so builds run one at a time.
//
//	out, err := render.Build(ctx, commit.Tree, "clusters/prod")
//
// A directory without a kustomization file is read as `kubectl apply -f` reads
// it: every manifest in it, not those of its subdirectories.
package render

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// PolicyGroup is the API group of the kinds that are policy and never reach
// the cluster.
const PolicyGroup = "lamplighter.dev"

// Object is one rendered object.
type Object struct {
	*unstructured.Unstructured

	// OriginalName is the name in the file, before namePrefix, nameSuffix and
	// generated hashes.
	OriginalName string

	// File is the file that defines the object, relative to the root of the
	// tree; the kustomization file for generated objects. Empty when unknown.
	File string
	// Line is where in File the object begins, or its generator; 0 when unknown.
	Line int

	// Hidden are the paths of fields that hold what was encrypted in the tree, and
	// that nobody may show; see [Every]. There are none for a Secret, of which that is
	// understood.
	Hidden [][]string
}

// Output is what one path of a tree asks for. Both lists are sorted by group,
// kind, namespace and name.
type Output struct {
	Objects  []Object
	Policies []Object // apiVersion of PolicyGroup; their fields are not checked here

	encrypted []string // in the tree; see Redact
}

// Build renders the directory at path, which is slash separated and relative
// to the root of tree ("." is the root). An error is one line that starts with
// the file or object it is about. Builds wait for each other; ctx ends the
// wait and the build. Encrypted files are read as they are: a [Builder] reads
// them in plain text.
func Build(ctx context.Context, tree fs.FS, path string) (Output, error) {
	return new(Builder).Build(ctx, tree, path)
}

func cleanPath(name string) (string, error) {
	switch clean := path.Clean(name); {
	case name == "":
		return "", fmt.Errorf("path is empty: say . for the root of the repository")
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", fmt.Errorf("%q: path has control characters", name)
	case path.IsAbs(name):
		return "", fmt.Errorf("%s: path is absolute: make it relative to the root of the repository", name)
	case leaves(clean):
		return "", fmt.Errorf("%s: path leaves the repository", name)
	default:
		return clean, nil
	}
}

// leaves says whether a clean, relative path points above its root.
func leaves(clean string) bool {
	return clean == ".." || strings.HasPrefix(clean, "../")
}
