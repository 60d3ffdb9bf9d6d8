// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
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

// Fleet is one commit, rendered and understood: what should be on the cluster
// and by which rules it gets there.
type Fleet struct {
	Commit   Commit
	Objects  []*unstructured.Unstructured
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

// Read renders the kustomize root at path in tree and reads the policy kinds
// in it. The answer is a function of its arguments; now matters only to
// findings such as a window that opens no more. A fleet with problems of level
// error is refused whole, as an *InvalidError.
func Read(ctx context.Context, tree fs.FS, path string, commit Commit, now time.Time) (*Fleet, error) {
	out, err := render.Build(ctx, tree, path)
	if err != nil {
		return nil, err
	}
	daemonSets, err := daemonSetsOf(out.Objects)
	if err != nil {
		return nil, err
	}
	policies, problems := policy.Parse(Documents(tree, out.Policies), daemonSets, now)
	fleet := &Fleet{Commit: commit, Policies: policies}
	invalid := &InvalidError{}
	for _, p := range problems {
		if p.Level == policy.Error {
			invalid.Problems = append(invalid.Problems, p)
		} else {
			fleet.Warnings = append(fleet.Warnings, p)
		}
	}
	if len(invalid.Problems) > 0 {
		return nil, invalid
	}
	for _, o := range out.Objects {
		fleet.Objects = append(fleet.Objects, o.Unstructured)
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
		d := policy.Document{Object: o.Object, OriginalName: o.OriginalName, File: o.File}
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

func daemonSetsOf(objects []render.Object) ([]policy.DaemonSet, error) {
	var (
		out  []policy.DaemonSet
		errs []error
	)
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() != daemonSetKind {
			continue
		}
		if o.GetNamespace() == "" {
			errs = append(errs, fmt.Errorf("%s: metadata.namespace is missing: set it, or namespace: in the kustomization", where(o)))
			continue
		}
		strategy, _, err := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: spec.updateStrategy.type: %w", where(o), err))
			continue
		}
		out = append(out, policy.DaemonSet{
			Name:           types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()},
			OriginalName:   o.OriginalName,
			Labels:         o.GetLabels(),
			UpdateStrategy: strategy,
			File:           o.File,
		})
	}
	return out, errors.Join(errs...)
}

// where names an object with the file that defines it, if that is known.
func where(o render.Object) string {
	id := inventory.Format(inventory.IDOf(o.Unstructured))
	if o.File == "" {
		return id
	}
	return o.File + ": " + id
}
