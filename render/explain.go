// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// explain says in one line why kustomize refused root. Kustomize's own words
// come last: they fill many lines and quote whole objects.
func (g *graph) explain(root string, cause error) error {
	for _, file := range g.files {
		if err := g.checkManifest(file); err != nil {
			return err
		}
	}
	if err := g.duplicate(cause); err != nil {
		return err
	}
	dir := root
	if at := recursed.FindAllStringSubmatch(cause.Error(), -1); at != nil {
		dir, _ = inTree(at[len(at)-1][1])
	}
	where := dir
	if !g.plain || dir != root {
		if file, err := g.kustomizationFile(dir); err == nil && file != "" {
			where = file
		}
	}
	return inFile(where, "", errors.New(g.redact(oneLine(cause))))
}

// checkManifest looks for what makes a file unreadable as manifests.
func (g *graph) checkManifest(file string) error {
	docs, err := g.documents(file)
	if err != nil {
		return inFile(file, "", err)
	}
	for _, d := range docs {
		if why := d.unfit(); why != "" {
			return inFile(file, fmt.Sprintf("line %d", d.line), errors.New(why))
		}
	}
	return nil
}

// registered is how kustomize reports an object that is there already:
// Kind.version.group/name.namespace, with or without a quote after it.
var registered = regexp.MustCompile(`already registered id: ([^./]+)\.[^/]*/(\S+)\.([^\s'":]+)`)

// duplicate names the files behind an object that is defined more than once.
func (g *graph) duplicate(cause error) error {
	m := registered.FindStringSubmatch(cause.Error())
	if m == nil {
		return nil
	}
	kind, name, namespace := m[1], m[2], m[3]
	if strings.HasPrefix(namespace, "[") { // [noNs]
		namespace = ""
	}
	var files []string
	for _, file := range g.files {
		docs, _ := g.documents(file) // readable: checkManifest has seen it
		for _, d := range docs {
			if d.kind == kind && d.name == name {
				files = append(files, file)
			}
		}
	}
	id := join(kind, namespace, name)
	switch slices.Sort(files); len(files) {
	case 0:
		return fmt.Errorf("%s: is defined twice", id)
	case 1:
		return fmt.Errorf("%s: is defined once, in %s, and included twice", id, files[0])
	default:
		if files[0] == files[1] {
			return fmt.Errorf("%s: is defined twice in %s", id, files[0])
		}
		return fmt.Errorf("%s: is defined twice, in %s and %s", id, files[0], files[1])
	}
}

// checkAliases refuses YAML whose aliases expand out of proportion: decoding
// into a value counts them, kustomize does not.
func checkAliases(data []byte) error {
	if !bytes.ContainsRune(data, '&') || !bytes.ContainsRune(data, '*') {
		return nil
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var v any
		if err := decoder.Decode(&v); err != nil {
			if strings.Contains(err.Error(), "excessive aliasing") || strings.Contains(err.Error(), "contains itself") {
				return err
			}
			return nil // not for this check: syntax errors are told with their line
		}
	}
}

var (
	yamlError = regexp.MustCompile(`yaml: (?:unmarshal errors:\s+)?([^\n]*)`)
	jsonError = regexp.MustCompile(`json: ([^\n]*)`)
)

// unreadable is the part of a parser's error that a reader can act on.
func unreadable(err error) error {
	for _, re := range []*regexp.Regexp{yamlError, jsonError} {
		if m := re.FindStringSubmatch(err.Error()); m != nil {
			return errors.New(m[1])
		}
	}
	return errors.New(oneLine(err))
}

// recursed is how kustomize says which base an error is in.
var recursed = regexp.MustCompile(`recursed (?:accumulation of|merging from) path '([^']*)': `)

// What kustomize wraps around its errors and nobody can use.
var noise = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile("(?s) with config: `.*?`(: |$)"), ": "},    // quotes a generator's literals
	{regexp.MustCompile(`(?s)in object .*`), "in an object"},       // quotes the object
	{regexp.MustCompile(`(?s)\[patch: ".*"\]`), "an inline patch"}, // quotes the patch
	{regexp.MustCompile(`accumulation err='accumulating resources from '[^']*': [^']*` + errDirectory.Error() + `': `), ""},
	{regexp.MustCompile(`accumulating (resources|components): |accumulateDirectory: |trouble configuring builtin `), ""},
	{recursed, ""},
	{regexp.MustCompile(`\.?\[no(Grp|Ver|Ns)\]`), ""},
	{regexp.MustCompile(mount + `/?`), ""},
	{regexp.MustCompile(`\s+`), " "},
}

func oneLine(err error) string {
	s := err.Error()
	for _, n := range noise {
		s = n.re.ReplaceAllString(s, n.with)
	}
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.TrimSpace(s)
}
