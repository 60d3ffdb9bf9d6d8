// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strings"
)

// jsonNames are the names of the fields that a value of Kubernetes' API has at a
// path such as "template.spec.containers[0]"; none where the path leads nowhere.
func jsonNames(of any, path string) []string {
	t := reflect.TypeOf(of)
	for step := range strings.SplitSeq(path, ".") {
		if name, _, _ := strings.Cut(step, "["); name != "" {
			t = fieldType(t, name)
		}
	}
	var names []string
	eachField(element(t), func(name string, _ reflect.Type) { names = append(names, name) })
	return names
}

func fieldType(t reflect.Type, wanted string) reflect.Type {
	var found reflect.Type
	eachField(element(t), func(name string, fieldType reflect.Type) {
		if name == wanted {
			found = fieldType
		}
	})
	return found
}

// element is what a type points to, or holds many of; nil of nil.
func element(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	return t
}

func eachField(t reflect.Type, visit func(name string, t reflect.Type)) {
	if t == nil || t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name != "" && name != "-":
			visit(name, f.Type)
		case f.Anonymous:
			eachField(element(f.Type), visit)
		}
	}
}
