// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"lamplighter.dev/render"
)

// IgnoreAnnotation on an object silences checks of it: their ids, separated by
// commas.
const IgnoreAnnotation = "lamplighter.dev/ignore-checks"

// ignored are the checks that each object silences.
func ignored(f Fleet) map[string][]ID {
	byObject := map[string][]ID{}
	for _, o := range slices.Concat(f.Objects, f.Policies) {
		s := findingSubject(o)
		byObject[s.object] = append(byObject[s.object], ignoredBy(o)...)
	}
	return byObject
}

func ignoredBy(o render.Object) []ID {
	var ids []ID
	for id := range strings.SplitSeq(o.GetAnnotations()[IgnoreAnnotation], ",") {
		if id = strings.TrimSpace(id); id != "" {
			ids = append(ids, ID(id))
		}
	}
	return ids
}

// ignoreNames checks the annotations themselves.
func (r *report) ignoreNames(f Fleet) {
	field := "metadata.annotations[" + IgnoreAnnotation + "]"
	for _, o := range slices.Concat(f.Objects, f.Policies) {
		for _, id := range ignoredBy(o) {
			switch c, known := catalogue[id]; {
			case !known:
				r.find(UnknownCheck, findingSubject(o), field, "there is no check %q", id)
			case c.Binding:
				r.find(UnknownCheck, findingSubject(o), field, "%s cannot be ignored: the object is refused as it is", id)
			}
		}
	}
}
