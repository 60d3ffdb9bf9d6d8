// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// EncryptedAnnotation is on objects of which something was encrypted in Git when
// they were applied. Its value is a JSON list of pointers to those fields, in which
// an asterisk is every entry of a list or key of a map: Git may say something else
// by now, and what is live is secret still.
const EncryptedAnnotation = "lamplighter.dev/encrypted"

// maxHidden is how long the annotation may be; an object may have 256 KiB of them.
const maxHidden = 16 << 10

// MarkHidden returns a copy of a rendered object that says which of its fields
// nobody may show. If those are too many, it names what they are in.
func MarkHidden(obj *unstructured.Unstructured, paths [][]string) (*unstructured.Unstructured, error) {
	out := obj.DeepCopy()
	longest := 0
	for _, p := range paths {
		longest = max(longest, len(p))
	}
	for depth := longest; depth > 0; depth-- {
		text, err := json.Marshal(pointersTo(paths, depth))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Format(IDOf(obj)), err)
		}
		if len(text) > maxHidden && depth > 1 {
			continue
		}
		annotations := out.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[EncryptedAnnotation] = string(text)
		out.SetAnnotations(annotations)
		break
	}
	return out, nil
}

// pointersTo are pointers to the paths, or to what is so deep that they are in it.
func pointersTo(paths [][]string, depth int) []string {
	seen, out := map[string]bool{}, []string{}
	for _, p := range paths {
		text := Pointer(p[:min(depth, len(p))]).String()
		if !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}

// HiddenIn are the paths of a live object's fields that nobody may show, by its own
// word. If that cannot be read, or names none, they are all fields.
func HiddenIn(live *unstructured.Unstructured) [][]string {
	text, ok := live.GetAnnotations()[EncryptedAnnotation]
	if !ok {
		return nil
	}
	var pointers []string
	if err := json.Unmarshal([]byte(text), &pointers); err != nil || len(pointers) == 0 {
		return everything
	}
	var out [][]string
	for _, text := range pointers {
		p, err := parsePointer(text)
		if err != nil {
			return everything
		}
		out = append(out, p)
	}
	return out
}

var everything = [][]string{{"*"}}
