// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// value turns a YAML node into what JSON can hold, as unstructured objects hold
// it: numbers are int64 or float64. A scalar stays what the file said: on, off,
// yes and no are text, and so is what YAML takes for a date.
func value(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return mapping(n)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := value(item)
			if err != nil {
				return nil, within(fmt.Sprintf("[%d]", i), err)
			}
			list[i] = v
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	default:
		return nil, errors.New("is neither a mapping, a list nor a scalar")
	}
}

func mapping(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != yaml.NodeTagString {
			return nil, fmt.Errorf("key %q is not text: quote it", key.Value)
		}
		if _, ok := m[key.Value]; ok {
			return nil, fmt.Errorf("key %q is given twice", key.Value)
		}
		v, err := value(n.Content[i+1])
		if err != nil {
			return nil, within("."+key.Value, err)
		}
		m[key.Value] = v
	}
	return m, nil
}

// integral is the range in which a float64 holds every integer.
const integral = 1 << 53

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case yaml.NodeTagString, timestampTag:
		return n.Value, nil
	case yaml.NodeTagNull:
		return nil, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not a %s", strings.TrimPrefix(n.ShortTag(), "!!"))
	}
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case uint64:
		return nil, errTooLong
	case float64:
		switch {
		case integer.MatchString(n.Value):
			return nil, errTooLong
		case math.IsNaN(v) || math.IsInf(v, 0):
			return nil, errors.New("is not a number that JSON can hold")
		case v == math.Trunc(v) && math.Abs(v) < integral:
			return int64(v), nil // 1e3 is sent as 1000
		}
		return v, nil
	case int64, bool, string:
		return v, nil
	default:
		return nil, fmt.Errorf("has the unknown tag %s", n.Tag)
	}
}

var (
	integer    = regexp.MustCompile(`^[-+]?[0-9_]+$`)
	errTooLong = errors.New("has more digits than a number can keep: quote it if it is text")
)

const timestampTag = "!!timestamp"

// fieldError is an error with the field it is about.
type fieldError struct {
	field string
	err   error
}

func (e fieldError) Error() string { return strings.TrimPrefix(e.field, ".") + ": " + e.err.Error() }
func (e fieldError) Unwrap() error { return e.err }

// within puts an error under a field.
func within(field string, err error) error {
	if inner, ok := errors.AsType[fieldError](err); ok {
		return fieldError{field + inner.field, inner.err}
	}
	return fieldError{field, err}
}
