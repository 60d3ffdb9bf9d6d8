// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	// maxDepth bounds bases on bases; symbolic links can make them endless.
	maxDepth = 64
	// maxWeight bounds what one build reads, in KiB, files counted as one at
	// least. A base that is included twice counts twice, and so do its own bases.
	maxWeight = 64 << 10
)

// graph is every kustomization that a build will visit, read before kustomize
// starts. What may not be built is refused here.
type graph struct {
	fsys      *filesystem
	weights   map[string]int        // by directory: what building it reads
	roles     map[string]role       // by directory: resource or component
	files     []string              // files named under resources, in the order found
	generated []definition          // what the generators make
	schema    bool                  // a kustomization sets the OpenAPI schema
	plain     bool                  // the root has no kustomization file of its own
	secrets   []string              // what no error may show
	nodes     map[string]*yaml.Node // kustomization files of which lines were asked for
}

// explore reads the graph below root.
func explore(fsys *filesystem, root string) (*graph, error) {
	g := &graph{fsys: fsys, weights: map[string]int{}, roles: map[string]role{}, nodes: map[string]*yaml.Node{}}
	info, err := fsys.stat(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", root, err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s: is a file: name its directory", root)
	}
	file, err := g.kustomizationFile(root)
	if err == nil && file == "" {
		err = g.listManifests(root)
	}
	if err != nil {
		return nil, err
	}
	_, err = g.visit(root, nil)
	return g, err
}

// kustomizationFile finds the kustomization file of a directory. It answers ""
// if there is none.
func (g *graph) kustomizationFile(dir string) (string, error) {
	var found []string
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		_, err := g.fsys.load(file)
		switch {
		case err == nil:
			found = append(found, file)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%s: has both %s and %s: keep one", dir, path.Base(found[0]), path.Base(found[1]))
	}
}

// visit reads the kustomization of dir and everything below it, and answers
// their weight. above is the way from the root.
func (g *graph) visit(dir string, above []string) (weight int, err error) {
	if weight, ok := g.weights[dir]; ok {
		return weight, nil
	}
	file, err := g.kustomizationFile(dir)
	if err != nil {
		return 0, err
	}
	if file == "" {
		return 0, errors.New("has no kustomization.yaml")
	}
	k, err := g.parse(file)
	if err != nil {
		return 0, err
	}
	refs, err := g.references(file, k)
	if err != nil {
		return 0, err
	}
	weight = 1
	above = append(slices.Clone(above), dir)
	for _, ref := range refs {
		more, err := g.follow(ref, dir, above)
		if err != nil {
			return 0, g.inField(file, ref.field, err)
		}
		if weight += more; weight > maxWeight {
			return 0, inFile(file, "", fmt.Errorf("takes more than %d MiB to build: bases are included too often", maxWeight>>10))
		}
	}
	g.weights[dir] = weight
	return weight, nil
}

// located is an error that already names its file.
type located struct{ error }

func (l located) Unwrap() error { return l.error }

// inFile says where an error is, once: the innermost file is the one to edit.
func inFile(file, field string, err error) error {
	if _, ok := errors.AsType[located](err); ok {
		return err
	}
	if field == "" {
		return located{fmt.Errorf("%s: %w", file, err)}
	}
	return located{fmt.Errorf("%s: %s: %w", file, field, err)}
}

// parse reads a kustomization file and refuses the fields that reach outside.
func (g *graph) parse(file string) (*types.Kustomization, error) {
	data, err := g.fsys.load(file)
	if err != nil {
		return nil, inFile(file, "", err)
	}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		return nil, inFile(file, "", unreadable(err))
	}
	if field, why := refusal(&k); field != "" {
		return nil, g.inField(file, field, errors.New(why))
	}
	fixed := k
	fixed.FixKustomization()
	if fixed.CheckEmpty() != nil {
		return nil, inFile(file, "", errors.New("is empty"))
	}
	if problems := fixed.EnforceFields(); len(problems) > 0 {
		return nil, inFile(file, "", errors.New(problems[0]))
	}
	g.schema = g.schema || len(k.OpenAPI) > 0
	g.roles[path.Dir(file)] = resource
	if fixed.Kind == types.ComponentKind {
		g.roles[path.Dir(file)] = component
	}
	return &k, nil
}

// follow checks one reference and visits what it leads to.
func (g *graph) follow(ref reference, dir string, above []string) (weight int, err error) {
	target, err := resolve(ref, dir)
	if err != nil {
		return 0, err
	}
	info, err := g.fsys.stat(target)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", target, err)
	case info.IsDir() && !ref.role.isBase():
		return 0, fmt.Errorf("%s: is a directory: name a file", target)
	case !info.IsDir() && ref.role == component:
		return 0, fmt.Errorf("%s: is a file: a component is a directory", target)
	case !info.IsDir():
		return g.checkFile(ref, target)
	}
	switch {
	case slices.Contains(above, target):
		return 0, fmt.Errorf("%s: is included by itself", target)
	case len(above) >= maxDepth:
		return 0, fmt.Errorf("%s: is more than %d bases deep", target, maxDepth)
	}
	weight, err = g.visit(target, above)
	_, ok := errors.AsType[located](err)
	switch {
	case ok:
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%s: %w", target, err)
	case g.roles[target] != ref.role:
		return 0, fmt.Errorf("%s: is a %s: list it under %ss", target, g.roles[target], g.roles[target])
	}
	return weight, nil
}

// resolve maps a reference to a path of the tree.
func resolve(ref reference, dir string) (string, error) {
	switch {
	case strings.TrimSpace(ref.target) == "":
		return "", errors.New("is empty")
	case isRemote(ref.target):
		return "", fmt.Errorf("%s: is remote: copy it into the repository", redactURL(ref.target))
	case path.IsAbs(ref.target):
		return "", fmt.Errorf("%s: is absolute: make it relative to this file", ref.target)
	}
	target := path.Join(dir, ref.target)
	if leaves(target) {
		return "", fmt.Errorf("%s: leaves the repository", ref.target)
	}
	return target, nil
}

// checkFile answers the weight of a file.
func (g *graph) checkFile(ref reference, target string) (weight int, err error) {
	data, err := g.fsys.load(target)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", target, err)
	}
	switch ref.role {
	case payload:
	case secret:
		g.keepSecret(string(data))
	case resource:
		g.files = append(g.files, target)
		err = checkAliases(data)
	case component, manifest:
		err = checkAliases(data)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", target, unreadable(err))
	}
	return 1 + len(data)>>10, nil
}
