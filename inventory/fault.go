// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fault is one rendered object that cannot be applied as it is, and why.
type Fault struct {
	ID      ID
	Source  Source
	Reason  Reason // Conflict, Rejected, Unknown, BadDependency or BadName
	Message string
}

// Error names the file and the object once, whether or not the message does.
func (f Fault) Error() string {
	name := Format(f.ID) + ": "
	text := name + strings.TrimPrefix(f.Message, name)
	if at := f.Source.String(); at != "" {
		text = at + ": " + text
	}
	return text
}

// Faults lists the objects for which a commit must not come into force, sorted:
// what is wrong with them is known before anything is sent. Not among them are
// objects of other inventories, which are not ours to apply, those that only
// somebody else has changed, and what is said of objects whose definition
// changes with them.
func Faults(changes []Change, instance Instance, adoption Adoption) []Fault {
	known := map[ID]bool{}
	pending := redefined(changes)
	for _, c := range changes {
		known[c.ID] = true
	}
	var faults []Fault
	for _, c := range changes {
		if c.Drifted || !c.mayApply(instance, adoption) {
			continue
		}
		if d, faulty := fault(c, known); faulty && !(c.Err != nil && pending[c.ID.GroupKind]) {
			faults = append(faults, Fault{ID: c.ID, Source: c.Source, Reason: d.Reason, Message: d.Message})
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return Compare(a.ID, b.ID) })
	return faults
}

// fault is the decision about an object that cannot be applied.
func fault(c Change, known map[ID]bool) (Decision, bool) {
	if c.Err != nil {
		return unapplicable(c.Err), true
	}
	if err := Storable(c.ID); err != nil {
		return refuse(BadName, err.Error()), true
	}
	if c.Kind == None {
		return Decision{}, false
	}
	_, why := askedFor(c.Object, known)
	return refuse(BadDependency, why), why != ""
}

// redefined are the kinds whose definition the commit adds or changes. What an
// API server says of their objects before that, it may not say after.
func redefined(changes []Change) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, c := range changes {
		if c.ID.GroupKind == definitionKind && c.Kind != None && c.Err == nil && c.Object != nil {
			kinds[Defines(c.Object)] = true
		}
	}
	return kinds
}

// Defines is the kind that a CustomResourceDefinition defines, and the zero
// kind for anything else.
func Defines(obj *unstructured.Unstructured) schema.GroupKind {
	if obj.GroupVersionKind().GroupKind() != definitionKind {
		return schema.GroupKind{}
	}
	group, _, errGroup := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, errKind := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	if errGroup != nil || errKind != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: group, Kind: kind}
}
