// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ChangeKind says how a rendered object differs from the live one.
type ChangeKind string

// The kinds of change.
const (
	None    ChangeKind = "None"    // applying it would change nothing
	Create  ChangeKind = "Create"  // it does not exist
	Update  ChangeKind = "Update"  // applying it would change something
	Replace ChangeKind = "Replace" // it cannot become so in place, and may be re-created
)

// Change compares one rendered object with the cluster.
type Change struct {
	ID   ID
	Kind ChangeKind
	// Source is where Git has the object.
	Source Source
	// Hidden are the paths of fields that nobody may show, beside those of Secrets. An
	// asterisk in a path is every entry of a list or key of a map.
	Hidden [][]string
	// Object is what would be sent, as [Prepare] returns it.
	Object *unstructured.Unstructured
	// Live is the object in the cluster and Merged what the API server would
	// make of it. Both are nil unless they had to be read.
	Live, Merged *unstructured.Unstructured
	// Likely stands in for Merged where the API server does not say what it would
	// make of the live object: it refuses the object, or takes no dry run of it. Nil
	// otherwise.
	Likely *unstructured.Unstructured
	// TemplateChanged says that the pod template would change.
	TemplateChanged bool
	// Drifted says that the rendered content is the one applied last, and that
	// somebody has changed the live object since.
	Drifted bool
	// DriftedBy is the field manager that changed it, if that is known, and
	// DriftedFields are the paths of what is another than in Git, sorted. A
	// drifted object that does not exist has been deleted.
	DriftedBy     string
	DriftedFields []string
	// UID is that of the live object; empty if it does not exist.
	UID types.UID
	// Immutable are the fields because of which it would have to be replaced, as
	// the API server writes them, sorted.
	Immutable []string
	// Owner is the owning inventory of the live object; empty if it has none.
	Owner string
	// Unserved says that the API server does not serve the object's version before its
	// definition, which changes too, is applied.
	Unserved bool
	// Deleting says that the live object is being deleted.
	Deleting bool
	// Err says why the object could not be compared, or why the API server
	// would refuse it: a [*ConflictError], a [*RejectedError], or any other
	// error if nothing is known yet.
	Err error
}

// Source is where in Git an object is: its file and, if that is known, the line at
// which it begins. It is zero when nothing is known.
type Source struct {
	File string // relative to the root of the repository
	Line int    // from 1; 0 when it is not known
}

// String is as in agents/cni.yaml: line 7. It is empty when nothing is known.
func (s Source) String() string {
	if s.File == "" || s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s: line %d", s.File, s.Line)
}

// mayApply reports whether an object may be ours, as far as it is known to exist.
func (c Change) mayApply(us Instance, a Adoption) bool {
	return c.Kind == Create || c.Owner == "" && (c.UID == "" || c.Drifted) || a.Allows(c.Owner, us)
}

// ConflictError says that fields we would set belong to other managers.
type ConflictError struct{ Holders []Holder } // sorted by manager, at least one

// Holder is another field manager, and the fields of it that we would set.
type Holder struct {
	Manager string
	Fields  []string // paths as the API server writes them, sorted: .spec.replicas
}

func (e *ConflictError) Error() string {
	const shown = 3
	var parts []string
	for _, h := range e.Holders[:min(shown, len(e.Holders))] {
		parts = append(parts, h.String())
	}
	if more := len(e.Holders) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more managers hold fields", more))
	}
	return strings.Join(parts, "; ")
}

// String is as in .spec.replicas belongs to "hpa".
func (h Holder) String() string {
	verb := "belongs"
	if len(h.Fields) > 1 {
		verb = "belong"
	}
	return fmt.Sprintf("%s %s to %q", summarise(h.Fields), verb, h.Manager)
}

// RejectedError says that the API server refuses an object as it is: it is
// invalid, forbidden, or an admission webhook denied it. Trying again without
// a new commit would not help.
type RejectedError struct{ Message string }

func (e *RejectedError) Error() string { return e.Message }

// Live is the metadata of an object that is owned but no longer rendered. The
// zero value, apart from its ID, is an object that exists and is not ours.
type Live struct {
	ID          ID
	UID         types.UID
	Annotations map[string]string
	// Gone says that the object does not exist any more.
	Gone bool
	// Deleting says that it is being deleted; Finalizers are what it waits for.
	Deleting   bool
	Finalizers []string
	// Foreign lists, for a namespace, objects in it that we do not own and, for
	// a CustomResourceDefinition, such objects of its kind. Both would go with it.
	Foreign []string
	// Defines is the kind that a CustomResourceDefinition defines.
	Defines schema.GroupKind
	// Err says why the object could not be read.
	Err error
}

// summarise lists up to three names and says how many more there are.
func summarise(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
