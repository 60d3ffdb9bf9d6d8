// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// document is one YAML document of a file, as far as errors need it.
type document struct {
	line                              int
	mapping                           bool
	apiVersion, kind, namespace, name string
}

func (d document) unfit() string {
	switch {
	case !d.mapping:
		return "is not a mapping"
	case d.apiVersion == "":
		return "has no apiVersion"
	case d.kind == "":
		return "has no kind"
	case d.name == "":
		return d.kind + " has no metadata.name"
	default:
		return ""
	}
}

func (g *graph) documents(file string) ([]document, error) {
	data, err := g.fsys.load(file)
	if err != nil {
		return nil, err
	}
	var docs []document
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		err := decoder.Decode(&n)
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, unreadable(err)
		case len(n.Content) == 0 || n.Content[0].Tag == yaml.NodeTagNull:
			continue // a document of comments
		}
		docs = g.read(docs, n.Content[0])
	}
}

// read adds n, or the items of a list.
func (g *graph) read(docs []document, n *yaml.Node) []document {
	d := document{line: n.Line, mapping: n.Kind == yaml.MappingNode}
	meta := child(n, "metadata")
	d.apiVersion, d.kind = text(child(n, "apiVersion")), text(child(n, "kind"))
	d.namespace, d.name = text(child(meta, "namespace")), text(child(meta, "name"))
	if items := child(n, "items"); items != nil && strings.HasSuffix(d.kind, "List") {
		for _, item := range items.Content {
			docs = g.read(docs, item)
		}
		return docs
	}
	if d.kind == "Secret" {
		g.keepSecretObject(n)
	}
	return append(docs, d)
}

// child finds the value of a key. It is nil when n is no mapping with that key.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
