// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

var errNotJSON = errors.New("is no JSON object")

// node is a JSON value whose order is kept.
type node struct {
	scalar any // string, int, float64, bool or nil
	fields []field
	items  []*node
	kind   json.Delim // '{' or '[', 0 for a scalar
}

type field struct {
	key   string
	value *node
}

// maxDepth bounds objects in objects, as encoding/json does.
const maxDepth = 10000

func readJSON(data []byte) (*file, error) {
	root, m, err := readObject(data)
	if err != nil || root == nil {
		return nil, err
	}
	b, ok := root.tree().(branch)
	if !ok {
		return nil, errNotJSON
	}
	return &file{parts: []part{{metadata: m, branches: []branch{b}}}, write: func() ([]byte, error) {
		var compact, out bytes.Buffer
		if err := root.write(&compact); err != nil {
			return nil, err
		}
		if err := json.Indent(&out, compact.Bytes(), "", "\t"); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
		return out.Bytes(), nil
	}}, nil
}

// readBinary reads a file of any kind, which SOPS wraps in JSON.
func readBinary(data []byte) (*file, error) {
	root, m, err := readObject(data)
	if err != nil || root == nil {
		return nil, err
	}
	if len(root.fields) != 1 || root.fields[0].key != "data" || root.fields[0].value.kind != 0 {
		return nil, errors.New("is JSON of which only data may be set, as SOPS wraps a file: give it the extension .json if it is JSON itself")
	}
	content := root.fields[0].value
	b := branch{{key: "data", value: content.tree()}}
	return &file{parts: []part{{metadata: m, branches: []branch{b}}}, write: func() ([]byte, error) {
		text, ok := content.scalar.(string)
		if !ok {
			return nil, errNotJSON
		}
		return []byte(text), nil
	}}, nil
}

// readObject reads an object and takes the metadata out. The object is nil if
// there is none, or if this is no JSON.
func readObject(data []byte) (*node, metadata, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	root, err := decode(d, 0)
	if err != nil || root.kind != '{' {
		return nil, metadata{}, nil //nolint:nilerr // whoever reads the file says what is wrong with it
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, metadata{}, errors.New("has more than one JSON value")
	}
	for i, f := range root.fields {
		if f.key != metadataKey || f.value.kind != '{' {
			continue
		}
		root.fields = append(root.fields[:i:i], root.fields[i+1:]...)
		fields, _ := f.value.plain().(map[string]any)
		m, err := readMetadata(fields)
		return root, m, err
	}
	return nil, metadata{}, nil
}

func decode(d *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errNotJSON
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		n := &node{kind: t}
		for d.More() {
			var key string
			if t == '{' {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				key, _ = k.(string)
			}
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				n.fields = append(n.fields, field{key, v})
			} else {
				n.items = append(n.items, v)
			}
		}
		_, err := d.Token() // the end
		return n, err
	case json.Number:
		v, err := number(t)
		return &node{scalar: v}, err
	default:
		return &node{scalar: t}, nil
	}
}

func number(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return int(i), nil
	}
	return n.Float64()
}

// tree is the value as a part of a file.
func (n *node) tree() any {
	switch {
	case n.kind == '{':
		b := branch{}
		for _, f := range n.fields {
			b = append(b, item{key: f.key, value: f.value.tree()})
		}
		return b
	case n.kind == '[':
		l := list{}
		for _, i := range n.items {
			v := i.tree()
			if v, ok := v.(*leaf); ok {
				v.drop = func(remark) { n.items = slices.DeleteFunc(n.items, func(e *node) bool { return e == i }) }
			}
			l = append(l, v)
		}
		return l
	case n.scalar == nil:
		return nil
	default:
		return &leaf{value: n.scalar, set: func(v any) error { n.scalar = v; return nil }}
	}
}

// plain is the value as metadata: every scalar is its text.
func (n *node) plain() any {
	switch {
	case n.kind == '{':
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case n.kind == '[':
		l := make([]any, 0, len(n.items))
		for _, i := range n.items {
			l = append(l, i.plain())
		}
		return l
	case n.scalar == nil:
		return ""
	default:
		return fmt.Sprint(n.scalar)
	}
}

func (n *node) write(out *bytes.Buffer) error {
	switch n.kind {
	case '{':
		out.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeScalar(out, f.key); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := f.value.write(out); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case '[':
		out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := item.write(out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		return writeScalar(out, n.scalar)
	}
	return nil
}

func writeScalar(out *bytes.Buffer, v any) error {
	data, err := json.Marshal(v)
	out.Write(data)
	return err
}
