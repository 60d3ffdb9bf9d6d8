// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IgnoreAnnotation lists fields of an object, as JSON pointers with commas
// between them, that Git says once and that are then left to others.
const IgnoreAnnotation = "lamplighter.dev/ignore"

// Pointer is a JSON pointer (RFC 6901): the keys on the way to a field.
type Pointer []string

// String writes a pointer as RFC 6901 does.
func (p Pointer) String() string {
	var b strings.Builder
	for _, key := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

// covers reports whether the field of other is the one of p, or in it.
func (p Pointer) covers(other Pointer) bool {
	return len(other) >= len(p) && slices.Equal(p, other[:len(p)])
}

// Ignored are the fields of a rendered object that are left to others once it
// exists. The error says what is wrong with its annotation.
func Ignored(obj *unstructured.Unstructured) ([]Pointer, error) {
	text, ok := obj.GetAnnotations()[IgnoreAnnotation]
	if !ok {
		return nil, nil
	}
	var (
		out  []Pointer
		errs []error
	)
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		p, err := parsePointer(word)
		if err == nil {
			err = mayIgnore(obj, p)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, p)
	}
	if len(out)+len(errs) == 0 {
		errs = append(errs, errors.New("is empty: name fields, such as /spec/replicas, or leave it out"))
	}
	return out, errors.Join(errs...)
}

func parsePointer(text string) (Pointer, error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, fmt.Errorf("%q is no JSON pointer: one begins with a slash, such as /spec/replicas", text)
	}
	keys := strings.Split(rest, "/")
	for i, key := range keys {
		if key == "" {
			return nil, fmt.Errorf("%q names a field without a name", text)
		}
		for j := range len(key) {
			if key[j] == '~' && !strings.HasPrefix(key[j:], "~0") && !strings.HasPrefix(key[j:], "~1") {
				return nil, fmt.Errorf("%q has a ~ that stands for nothing: write ~0 for ~ and ~1 for /", text)
			}
		}
		keys[i] = strings.NewReplacer("~0", "~", "~1", "/").Replace(key)
	}
	return keys, nil
}

// mayIgnore refuses a pointer to what an object cannot do without, to what is
// never sent, and into a list, where no field has a place of its own.
func mayIgnore(obj *unstructured.Unstructured, p Pointer) error {
	for _, n := range reserved(obj) {
		if p.covers(n.field) || n.field.covers(p) {
			return fmt.Errorf("%q cannot be ignored: %s", p, n.why)
		}
	}
	if gvk := obj.GroupVersionKind(); p[0] == "stringData" && gvk.Group == "" && gvk.Kind == "Secret" {
		return fmt.Errorf("%q cannot be ignored: it is sent as data, so say /data", p)
	}
	if p[0] == "metadata" && !metadataToIgnore(p) {
		return fmt.Errorf("%q cannot be ignored: of metadata, name one label or annotation", p)
	}
	var at any = obj.Object
	for i, key := range p {
		fields, ok := at.(map[string]any)
		if _, isList := at.([]any); isList {
			return fmt.Errorf("%q goes into a list, where a field has no place of its own: ignore the whole list, %s, or leave the field out of Git", p, p[:i])
		}
		if !ok {
			return nil // Git does not say it
		}
		at = fields[key]
	}
	return nil
}

func metadataToIgnore(p Pointer) bool {
	return len(p) == 3 && (p[1] == "labels" || p[1] == "annotations")
}

// A reservation is a field that nobody else decides about, and why.
type reservation struct {
	field Pointer
	why   string
}

// reserved are the fields of an object that are not left to others.
func reserved(obj *unstructured.Unstructured) []reservation {
	const identity, mark, status, pods = "it says which object this is", "it says whose the object is", "a status is never sent", "it decides when pods are replaced, and with what"
	out := []reservation{
		{Pointer{"apiVersion"}, identity},
		{Pointer{"kind"}, identity},
		{Pointer{"metadata", "name"}, identity},
		{Pointer{"metadata", "namespace"}, identity},
		{Pointer{"metadata", "labels", InstanceLabel}, mark},
		{Pointer{"metadata", "annotations", OwnerAnnotation}, mark},
		{Pointer{"metadata", "annotations", AppliedAnnotation}, mark},
		{Pointer{"metadata", "annotations", EncryptedAnnotation}, "it says what nobody may show"},
		{Pointer{"metadata", "annotations", IgnoreAnnotation}, "it is the list of what is ignored"},
		{Pointer{"status"}, status},
	}
	if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apps", Kind: "DaemonSet"}) {
		out = append(out,
			reservation{Pointer{"spec", "template"}, pods},
			reservation{Pointer{"spec", "selector"}, pods},
			reservation{Pointer{"spec", "updateStrategy"}, pods})
	}
	return out
}

// ignoreDefects are what is wrong with the list of ignored fields.
func ignoreDefects(obj *unstructured.Unstructured) []Defect {
	_, err := Ignored(obj)
	if err == nil {
		return nil
	}
	var out []Defect
	for line := range strings.Lines(err.Error()) {
		out = append(out, Defect{Field: "metadata.annotations[" + IgnoreAnnotation + "]", Message: strings.TrimSuffix(line, "\n")})
	}
	return out
}
