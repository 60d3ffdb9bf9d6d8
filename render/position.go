// SPDX-License-Identifier: Apache-2.0

package render

import (
	"regexp"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// inField says where in a kustomization an error is: its file, line and field.
func (g *graph) inField(file, field string, err error) error {
	if line := g.lineOf(file, field); line > 0 {
		return inFile(file, "line "+strconv.Itoa(line)+": "+field, err)
	}
	return inFile(file, field, err)
}

// step is one of a field's path, as in patches[0].path.
var step = regexp.MustCompile(`[^.\[\]]+`)

// lineOf is the line of a field of a kustomization, or of the innermost one that
// it is in: what a generator's own file says has no line here. It is 0 if nothing
// of it is found.
func (g *graph) lineOf(file, field string) int {
	n := g.node(file)
	if n == nil {
		return 0
	}
	line := 0
	for _, s := range step.FindAllString(field, -1) {
		inner, at := inside(n, s)
		if inner == nil {
			break
		}
		n, line = inner, at
	}
	return line
}

// node is the content of a YAML file with one document; nil if it cannot be read.
func (g *graph) node(file string) *yaml.Node {
	if n, ok := g.nodes[file]; ok {
		return n
	}
	g.nodes[file] = nil
	data, err := g.fsys.load(file)
	if err != nil {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err == nil && len(doc.Content) > 0 {
		g.nodes[file] = doc.Content[0]
	}
	return g.nodes[file]
}

// inside is the value of a key, or the entry of a list, and its line. It is nil if
// there is none.
func inside(n *yaml.Node, step string) (value *yaml.Node, line int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	i, err := strconv.Atoi(step)
	switch {
	case n.Kind == yaml.SequenceNode && err == nil && i < len(n.Content):
		return n.Content[i], n.Content[i].Line
	case n.Kind != yaml.MappingNode:
		return nil, 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1], n.Content[i].Line
		}
	}
	return nil, 0
}
