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
	"lamplighter.dev/reconcile"
)

// ObjectDiff is one object of a diff.
type ObjectDiff struct {
	Object string `json:"object"`
	Origin
	Action  string `json:"action"`
	Reason  string `json:"reason"`
	Until   string `json:"until,omitempty"`
	Message string `json:"message,omitempty"`
	// Diff is a unified diff of the live object and what applying would make of
	// it, Secret values masked. It is empty for what is only deleted, and for
	// what another inventory owns.
	Diff string `json:"diff,omitempty"`
	// Likely says that the API server does not tell what it would make of the object,
	// so that Diff shows what Git says over what there is.
	Likely bool `json:"likely,omitempty"`
	// What the change of a DaemonSet means for nodes; see [PlannedObject].
	Restarts int `json:"restarts,omitempty"`
	Starts   int `json:"starts,omitempty"`
	Leaves   int `json:"leaves,omitempty"`

	// Live and Merged are both sides of Diff, as YAML; empty for what does not exist.
	Live   string `json:"-"`
	Merged string `json:"-"`
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
			Origin:  originOf(d.Source),
		}
		if !d.Until.IsZero() {
			diff.Until = Time(d.Until)
		}
		if c, rendered := changeByID[d.ID]; rendered && d.Reason != inventory.NotOwned {
			if err := diff.compare(c); err != nil {
				return Diff{}, fmt.Errorf("diff %s: %w", diff.Object, err)
			}
		}
		out.Objects = append(out.Objects, diff)
	}
	return out, nil
}

// Tell adds what changes of DaemonSets mean for nodes.
func (d *Diff) Tell(impacts []reconcile.Impact) {
	for i := range d.Objects {
		for _, impact := range impacts {
			if o := &d.Objects[i]; o.Object == inventory.Format(impact.ID) {
				o.Restarts, o.Starts, o.Leaves = impact.Restarts, impact.Starts, impact.Leaves
			}
		}
	}
}

// WriteDiff writes a diff as text: for each object a line that says what
// happens to it and why, then the unified diff.
func WriteDiff(w io.Writer, diff Diff, opts Options) error {
	for _, d := range diff.Objects {
		if _, err := fmt.Fprintln(w, d.Headline()); err != nil {
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

// Headline is one line that says what happens to the object and why.
func (d ObjectDiff) Headline() string {
	head := line(strings.ToLower(d.Action)+" "+d.Object, d.Reason, d.Until, d.told(d.Action, d.Reason, d.Message))
	if words := impactWords(reconcile.Impact{Restarts: d.Restarts, Starts: d.Starts, Leaves: d.Leaves}); words != "" {
		head += " (" + words + ")"
	}
	if d.Likely && d.Action != string(inventory.Refuse) {
		head += " (likely: the API server does not tell before it is applied)"
	}
	return head
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

// compare fills in both sides, and how they differ.
func (d *ObjectDiff) compare(c inventory.Change) (err error) {
	after := c.Merged
	if after == nil {
		after = c.Likely
	}
	if after == nil {
		after = c.Object
	}
	d.Likely = c.Merged == nil && c.Live != nil
	if after == nil || (c.Live == nil && c.Kind != inventory.Create) {
		return nil
	}
	before, after := meaningful(c.Live), meaningful(after)
	maskSecrets(before, after)
	hidden := c.Hidden
	if c.Live != nil {
		hidden = slices.Concat(hidden, inventory.HiddenIn(c.Live)) // as Git said when it was applied
	}
	for _, path := range hidden {
		maskAt(before, after, path)
	}
	if d.Live, err = asYAML(before); err != nil {
		return err
	}
	if d.Merged, err = asYAML(after); err != nil {
		return err
	}
	d.Diff = udiff.Unified("live/"+d.Object, "git/"+d.Object, d.Live, d.Merged)
	return nil
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
	for _, annotation := range []string{"deprecated.daemonset.template.generation", "kubectl.kubernetes.io/last-applied-configuration", inventory.AppliedAnnotation} {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations", annotation)
	}
	if len(out.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out
}
