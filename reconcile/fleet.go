// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"io/fs"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// Commit says which commit a fleet was read from. It is zero for a working
// tree.
type Commit struct {
	Hash    string    `json:"hash,omitempty"`
	Branch  string    `json:"branch,omitempty"`
	Author  string    `json:"author,omitempty"`
	Subject string    `json:"subject,omitempty"`
	When    time.Time `json:"when,omitzero"`
}

// Is says whether a hash, or how one begins, is the commit's. An empty one is of
// none.
func (c Commit) Is(hash string) bool {
	return hash != "" && strings.HasPrefix(c.Hash, hash)
}

// Fleet is one commit, rendered and understood: what should be on the cluster
// and by which rules it gets there.
type Fleet struct {
	Commit  Commit
	Objects []*unstructured.Unstructured
	// Sources are where the objects are in Git.
	Sources map[inventory.ID]inventory.Source
	// Hidden are the paths of their fields that hold what is encrypted in Git, and
	// Redact takes it out of a text; nil for a fleet that was not rendered.
	Hidden   map[inventory.ID][][]string
	Redact   func(text string) string
	Policies policy.Set
	// Warnings are findings that do not keep the commit from being used.
	Warnings []policy.Problem
}

// InvalidError is a fleet that cannot be used: every problem at once, a line
// each.
type InvalidError struct{ Problems []policy.Problem }

func (e *InvalidError) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Examination is a fleet and everything that is wrong with it.
type Examination struct {
	// Objects are those for the cluster, Policies those of the policy kinds.
	Objects, Policies []render.Object
	// Set is usable only if no problem is an error.
	Set      policy.Set
	Problems []policy.Problem
	// Redact takes out of a text what is encrypted in the tree.
	Redact func(text string) string
}

// Reader reads fleets, one after another, and builds nothing again that is what
// it was. The zero value is ready, and decrypts nothing. It is not for
// concurrent use.
type Reader struct {
	// Builder renders, and holds what decrypts.
	Builder render.Builder
}

// Read reads one fleet: see [Reader.Read].
func Read(ctx context.Context, tree fs.FS, path string, commit Commit, now time.Time) (*Fleet, error) {
	return new(Reader).Read(ctx, tree, path, commit, now)
}

// Examine looks at one fleet: see [Reader.Examine].
func Examine(ctx context.Context, tree fs.FS, path string, now time.Time) (Examination, error) {
	return new(Reader).Examine(ctx, tree, path, now)
}

// Examine renders the kustomize root at path in tree and reads the policy kinds
// in it, and refuses nothing that renders. The answer is a function of its
// arguments; now matters only to findings such as a window that opens no more.
func (r *Reader) Examine(ctx context.Context, tree fs.FS, path string, now time.Time) (Examination, error) {
	out, err := r.Builder.Build(ctx, tree, path)
	if err != nil {
		return Examination{}, err
	}
	daemonSets, faults := daemonSetsOf(out.Objects)
	for _, o := range out.Objects {
		faults = append(faults, defectsOf(o)...)
	}
	set, problems := policy.Parse(Documents(tree, out.Policies), daemonSets, now)
	return Examination{Objects: out.Objects, Policies: out.Policies, Set: set, Problems: append(faults, problems...), Redact: out.Redact}, nil
}

// Read is Examine for a fleet that is to be used: one with problems of level
// error is refused whole, as an *InvalidError.
func (r *Reader) Read(ctx context.Context, tree fs.FS, path string, commit Commit, now time.Time) (*Fleet, error) {
	seen, err := r.Examine(ctx, tree, path, now)
	if err != nil {
		return nil, err
	}
	fleet := &Fleet{Commit: commit, Policies: seen.Set, Sources: map[inventory.ID]inventory.Source{}, Hidden: map[inventory.ID][][]string{}, Redact: seen.Redact}
	invalid := &InvalidError{}
	for _, p := range seen.Problems {
		if p.Level == policy.Error {
			invalid.Problems = append(invalid.Problems, p)
		} else {
			fleet.Warnings = append(fleet.Warnings, p)
		}
	}
	if len(invalid.Problems) > 0 {
		return nil, invalid
	}
	for _, o := range seen.Objects {
		object, id := o.Unstructured, inventory.IDOf(o.Unstructured)
		fleet.Sources[id] = inventory.Source{File: o.File, Line: o.Line}
		if len(o.Hidden) > 0 {
			fleet.Hidden[id] = o.Hidden
			if object, err = inventory.MarkHidden(object, o.Hidden); err != nil {
				return nil, err
			}
		}
		fleet.Objects = append(fleet.Objects, object)
	}
	return fleet, nil
}

// maxCalendar is how large the calendar of a Freeze may be, in bytes.
const maxCalendar = 1 << 20

// Documents are rendered policy kinds with the calendars that they name, which
// are read from the tree that was rendered.
func Documents(tree fs.FS, objects []render.Object) []policy.Document {
	docs := make([]policy.Document, 0, len(objects))
	for _, o := range objects {
		d := policy.Document{Object: o.Object, OriginalName: o.OriginalName, File: o.File, Line: o.Line}
		if name := policy.CalendarOf(o.Object); name != "" {
			data, err := render.Attachment(tree, o, name, maxCalendar)
			if err != nil {
				d.CalendarFault = err.Error()
			}
			d.Calendar = string(data)
		}
		docs = append(docs, d)
	}
	return docs
}

var daemonSetKind = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}

// defectsOf are what keeps every API server from taking an object.
func defectsOf(o render.Object) []policy.Problem {
	var out []policy.Problem
	for _, d := range inventory.Defects(o.Unstructured) {
		code := policy.InvalidObject
		if d.Encrypted {
			code = policy.Encrypted
		}
		out = append(out, policy.Problem{
			Level: policy.Error, Code: code, File: o.File, Line: o.Line, Object: inventory.Format(inventory.IDOf(o.Unstructured)), Field: d.Field, Message: d.Message,
		})
	}
	return out
}

// daemonSetsOf are the DaemonSets that a policy may name. What is wrong with
// one keeps it out, and is an error.
func daemonSetsOf(objects []render.Object) (out []policy.DaemonSet, faults []policy.Problem) {
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() != daemonSetKind {
			continue
		}
		fault := policy.Problem{Level: policy.Error, Code: policy.InvalidDaemonSet, File: o.File, Line: o.Line, Object: inventory.Format(inventory.IDOf(o.Unstructured))}
		if o.GetNamespace() == "" {
			fault.Field, fault.Message = "metadata.namespace", "is missing: set it, or namespace: in the kustomization"
			faults = append(faults, fault)
			continue
		}
		strategy, _, err := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
		if err != nil {
			fault.Field, fault.Message = "spec.updateStrategy.type", "cannot be read: write updateStrategy: {type: OnDelete}"
			faults = append(faults, fault)
			continue
		}
		out = append(out, policy.DaemonSet{
			Name:           types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()},
			OriginalName:   o.OriginalName,
			Labels:         o.GetLabels(),
			UpdateStrategy: strategy,
			File:           o.File,
			Line:           o.Line,
		})
	}
	return out, faults
}
