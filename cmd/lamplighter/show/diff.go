// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/inventory"
)

// ObjectDiff is one object of a diff.
type ObjectDiff struct {
	Object  string `json:"object"`
	Action  string `json:"action"`
	Reason  string `json:"reason"`
	Until   string `json:"until,omitempty"`
	Message string `json:"message,omitempty"`
	// Diff is a unified diff of the live object and what applying would make of
	// it, Secret values masked. It is empty for what is only deleted, and for
	// what another inventory owns.
	Diff string `json:"diff,omitempty"`
}

// Diff is what applying would change.
type Diff struct {
	// Objects are those that differ from Git, sorted. What is held or refused is
	// among them, with its reason.
	Objects []ObjectDiff `json:"objects"`
	// Refused says why none of it would be applied; empty when it would.
	Refused string `json:"refused,omitempty"`
}

// HasConflict says that another field manager stands in the way.
func (d Diff) HasConflict() bool {
	return slices.ContainsFunc(d.Objects, func(o ObjectDiff) bool { return o.Reason == string(inventory.Conflict) })
}

// NewDiff compares what a plan decided about with what is there.
func NewDiff(plan inventory.Plan, changes []inventory.Change) (Diff, error) {
	changeByID := map[inventory.ID]inventory.Change{}
	for _, c := range changes {
		changeByID[c.ID] = c
	}
	out := Diff{Objects: []ObjectDiff{}}
	for _, d := range plan.Decisions() {
		if d.Action == inventory.Keep {
			continue
		}
		diff := ObjectDiff{
			Object:  inventory.Format(d.ID),
			Action:  string(d.Action),
			Reason:  string(d.Reason),
			Message: messageAbout(d.ID, d.Message),
		}
		if !d.Until.IsZero() {
			diff.Until = Time(d.Until)
		}
		if c, rendered := changeByID[d.ID]; rendered && d.Reason != inventory.NotOwned {
			text, err := unified(c)
			if err != nil {
				return Diff{}, fmt.Errorf("diff %s: %w", diff.Object, err)
			}
			diff.Diff = text
		}
		out.Objects = append(out.Objects, diff)
	}
	return out, nil
}

// WriteDiff writes a diff as text: for each object a line that says what
// happens to it and why, then the unified diff.
func WriteDiff(w io.Writer, diff Diff, opts Options) error {
	for _, d := range diff.Objects {
		if _, err := fmt.Fprintln(w, d.headline()); err != nil {
			return err
		}
		for line := range strings.Lines(d.Diff) {
			if _, err := io.WriteString(w, colorLine(line, opts)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d ObjectDiff) headline() string {
	return line(strings.ToLower(d.Action)+" "+d.Object, d.Reason, d.Until, d.Message)
}

const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

func colorLine(line string, opts Options) string {
	if !opts.Color {
		return line
	}
	color := ""
	switch line[0] {
	case '+':
		color = green
	case '-':
		color = red
	default:
		return line
	}
	return color + strings.TrimSuffix(line, "\n") + reset + "\n"
}

// unified is the diff of the live object and what it would become.
func unified(c inventory.Change) (string, error) {
	after := c.Merged
	if after == nil {
		after = c.Object
	}
	if after == nil || (c.Live == nil && c.Kind != inventory.Create) {
		return "", nil
	}
	before, after := meaningful(c.Live), meaningful(after)
	maskSecrets(before, after)
	was, err := asYAML(before)
	if err != nil {
		return "", err
	}
	becomes, err := asYAML(after)
	if err != nil {
		return "", err
	}
	name := inventory.Format(c.ID)
	return udiff.Unified("live/"+name, "git/"+name, was, becomes), nil
}

func asYAML(obj *unstructured.Unstructured) (string, error) {
	if obj == nil {
		return "", nil
	}
	data, err := yaml.Marshal(obj.Object)
	return string(data), err
}

// meaningful is a copy without what the API server writes by itself.
func meaningful(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil {
		return nil
	}
	out := obj.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	for _, annotation := range []string{"deprecated.daemonset.template.generation", "kubectl.kubernetes.io/last-applied-configuration"} {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations", annotation)
	}
	if len(out.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out
}
