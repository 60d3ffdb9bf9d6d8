// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// metadataKey is where YAML, JSON and INI files hold their metadata.
const metadataKey = "sops"

// readYAML reads all documents of a file. Those that were encrypted together
// carry the same MAC; one without any is in plain text. It answers nil if all
// are, or if the file is no YAML: whoever reads it says so.
func readYAML(data []byte) (*file, error) {
	docs, ok := documents(data)
	if !ok {
		return nil, nil
	}
	f := &file{write: func() ([]byte, error) { return writeYAML(docs) }}
	at := map[string]int{} // part by MAC
	for _, d := range docs {
		root := d.Content[0]
		meta := pull(root)
		if meta == nil {
			continue
		}
		b, err := yamlBranch(root, false)
		if err != nil {
			return nil, err
		}
		fields, err := plainMap(meta)
		if err != nil {
			return nil, err
		}
		mac := textOf(fields, "mac")
		if i, ok := at[mac]; ok {
			f.parts[i].branches = append(f.parts[i].branches, b)
			continue
		}
		m, err := readMetadata(fields)
		if err != nil {
			return nil, err
		}
		at[mac] = len(f.parts)
		f.parts = append(f.parts, part{metadata: m, branches: []branch{b}})
	}
	if len(f.parts) == 0 {
		return nil, nil
	}
	return f, nil
}

func documents(data []byte) ([]*yaml.Node, bool) {
	var docs []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			return docs, true
		case err != nil:
			return nil, false
		case len(n.Content) == 1:
			docs = append(docs, &n)
		}
	}
}

// pull takes the metadata out of a document. It is nil if there is none.
func pull(root *yaml.Node) *yaml.Node {
	if root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value != metadataKey || value.Kind != yaml.MappingNode || !has(value, "mac") {
			continue
		}
		root.Content = slices.Delete(root.Content, i, i+2)
		// What stands before it was written about what is before that.
		if before := lines(key.HeadComment, key.FootComment); i > 0 {
			root.Content[i-2].FootComment = lines(root.Content[i-2].FootComment, before)
		} else {
			root.HeadComment = lines(root.HeadComment, before)
		}
		return value
	}
	return nil
}

func has(m *yaml.Node, key string) bool {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return true
		}
	}
	return false
}

// plainMap reads metadata; every scalar is its text.
func plainMap(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := plainValue(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		m[n.Content[i].Value] = v
	}
	return m, nil
}

func plainValue(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return plainMap(n)
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := plainValue(c)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
		return l, nil
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "", nil
		}
		return n.Value, nil
	default:
		return nil, errAlias(n)
	}
}

func errAlias(n *yaml.Node) error {
	return fmt.Errorf("line %d: is an alias, and SOPS writes none: encrypt the file again", n.Line)
}

// The comments of a node are those of the branch or list around it, unless it
// is a branch or a list with comments of its own: told says that somebody above
// has taken them.

func yamlBranch(n *yaml.Node, told bool) (branch, error) {
	var b branch
	tell := func(fields ...*string) {
		for _, f := range fields {
			for _, c := range comments(f) {
				b = append(b, item{comment: c})
			}
		}
	}
	if !told {
		tell(&n.HeadComment, &n.LineComment)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return nil, fmt.Errorf("line %d: the key is not text: quote it", key.Line)
		}
		scalar := value.Kind == yaml.ScalarNode
		tell(&key.HeadComment, &key.LineComment)
		if scalar {
			tell(&value.HeadComment, &value.LineComment)
		}
		v, err := yamlValue(value, scalar)
		if err != nil {
			return nil, err
		}
		b = append(b, item{key: key.Value, value: v})
		if scalar {
			tell(&value.FootComment)
		}
		tell(&key.FootComment)
	}
	if !told {
		tell(&n.FootComment)
	}
	return b, nil
}

func yamlList(n *yaml.Node, told bool) (list, error) {
	l := list{}
	tell := func(fields ...*string) {
		for _, f := range fields {
			for _, c := range comments(f) {
				l = append(l, c)
			}
		}
	}
	if !told {
		tell(&n.HeadComment, &n.LineComment)
	}
	for _, c := range n.Content {
		tell(&c.HeadComment, &c.LineComment)
		v, err := yamlValue(c, true)
		if err != nil {
			return nil, err
		}
		if v, ok := v.(*leaf); ok {
			v.drop = func(r remark) { dropElement(n, c, r) }
		}
		l = append(l, v)
		tell(&c.FootComment)
	}
	if !told {
		tell(&n.FootComment)
	}
	return l, nil
}

// dropElement makes an element of a list a comment of the one after it, or of
// what is there.
func dropElement(list, n *yaml.Node, r remark) {
	i := slices.Index(list.Content, n)
	text := lines(n.HeadComment, "#"+string(r), n.LineComment, n.FootComment)
	list.Content = slices.Delete(list.Content, i, i+1)
	switch {
	case i < len(list.Content):
		list.Content[i].HeadComment = lines(text, list.Content[i].HeadComment)
	case i > 0:
		list.Content[i-1].FootComment = lines(list.Content[i-1].FootComment, text)
	default:
		list.HeadComment = lines(list.HeadComment, text)
	}
}

func lines(comments ...string) string {
	return strings.Join(slices.DeleteFunc(comments, func(c string) bool { return c == "" }), "\n")
}

func yamlValue(n *yaml.Node, told bool) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return yamlBranch(n, told)
	case yaml.SequenceNode:
		return yamlList(n, told)
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: cannot be read", n.Line)
		}
		if v == nil {
			return nil, nil
		}
		return &leaf{value: v, set: func(v any) error { return setScalar(n, v) }}, nil
	default:
		return nil, errAlias(n)
	}
}

// comments are the lines of one comment of a node.
func comments(field *string) []*comment {
	if *field == "" {
		return nil
	}
	lines := strings.Split(*field, "\n")
	var out []*comment
	for i, line := range lines {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			continue
		}
		out = append(out, &comment{text: text, set: func(s string) {
			lines[i] = "#" + s
			*field = strings.Join(lines, "\n")
		}})
	}
	return out
}

// setScalar gives a node another value, and leaves its comments.
func setScalar(n *yaml.Node, v any) error {
	var with yaml.Node
	if s, ok := v.(string); ok {
		with = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: styleOf(s)}
	} else if err := with.Encode(v); err != nil {
		return err
	}
	n.Kind, n.Tag, n.Value, n.Style = with.Kind, with.Tag, with.Value, with.Style
	return nil
}

// styleOf keeps lines as lines where a block does that exactly, and quotes what
// another style might change.
func styleOf(s string) yaml.Style {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }):
		return yaml.DoubleQuotedStyle
	case !strings.Contains(s, "\n"):
		return 0
	case strings.TrimLeft(s, " \n") != s:
		return yaml.DoubleQuotedStyle
	default:
		return yaml.LiteralStyle
	}
}

func writeYAML(docs []*yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	for _, d := range docs {
		if root := d.Content[0]; root.Kind == yaml.MappingNode && len(root.Content) == 0 {
			continue // it held nothing but metadata
		}
		if err := e.Encode(d); err != nil {
			return nil, err
		}
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
