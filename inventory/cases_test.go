// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/object/dependson"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/inventory"
)

var us = inventory.Instance{Namespace: "lamps", Name: "us"}

// TestCases plans every file of testdata. A file starts with a comment that
// says what it is about and, if the guards are lifted, the line allow-prune, or
// the line ends if the instance does, or the line adoption with a policy, or the
// line whole if the commit comes into force whole or not at all, or the line report
// if drift is only reported.
// Then come, one object a line:
//
//   - rendered: create, update, replace or none, the object, and what else is so: owner=,
//     deleting, drifted=manager:field, conflict=manager:field, rejected=, error=, needs=object,
//     uid=.
//     What is not created, or is owned, is owned, by us unless owner= says otherwise.
//   - orphans: the object and what else is so: owner=, gone, unseen, detach,
//     keep, deleting, finalizer=, foreign=, defines=kind, error=, needs=object, uid=.
//   - strays: the object, as for orphans.
//   - vetoes: the object, a reason, an instant or -, and a message.
//   - used: the object and by what.
//   - kept: the object, a reason and a message.
func TestCases(t *testing.T) {
	casefile.Run(t, "testdata/*.txt", func(t *testing.T, given *txtar.Archive) txtar.File {
		return casefile.Want(describe(inventory.New(readCase(t, given))))
	})
}

// describe writes a plan as a case wants it.
func describe(p inventory.Plan, err error) string {
	if err != nil {
		return "error " + err.Error() + "\n"
	}
	var b strings.Builder
	for i, step := range p.Steps {
		fmt.Fprintf(&b, "step %d\n", i+1)
		describeStep(&b, step)
	}
	for i, step := range p.Prunes {
		fmt.Fprintf(&b, "prune %d\n", i+1)
		describeStep(&b, step)
	}
	if p.Guarded > 0 {
		fmt.Fprintf(&b, "guarded %d\n", p.Guarded)
	}
	b.WriteString("inventory\n")
	for _, id := range p.Next.IDs() {
		fmt.Fprintf(&b, "  %s\n", inventory.Format(id))
	}
	return b.String()
}

func describeStep(b *strings.Builder, step []inventory.Decision) {
	for _, d := range step {
		fmt.Fprintf(b, "  %s %s %s", strings.ToLower(string(d.Action)), inventory.Format(d.ID), d.Reason)
		if !d.Until.IsZero() {
			fmt.Fprintf(b, " until %s", d.Until.Format(time.RFC3339))
		}
		if d.Message != "" {
			fmt.Fprintf(b, ": %s", d.Message)
		}
		for _, id := range d.After {
			fmt.Fprintf(b, " [after %s]", inventory.Format(id))
		}
		b.WriteString("\n")
	}
}

func readCase(t *testing.T, archive *txtar.Archive) inventory.Input {
	t.Helper()
	in := inventory.Input{
		Instance:   us,
		Vetoes:     map[inventory.ID]inventory.Veto{},
		References: map[inventory.ID][]string{},
		Kept:       map[inventory.ID]inventory.Veto{},
	}
	whole := false
	for _, line := range strings.Split(string(archive.Comment), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "", strings.HasPrefix(line, "#"):
		case line == "allow-prune":
			in.AllowPrune = true
		case strings.HasPrefix(line, "guarded "):
			n, err := strconv.Atoi(strings.TrimPrefix(line, "guarded "))
			if err != nil {
				t.Fatal(err)
			}
			in.Guarded = n
		case line == "ends":
			in.Ends, in.AllowPrune = true, true
		case strings.HasPrefix(line, "adoption "):
			in.Adoption = inventory.Adoption(strings.TrimPrefix(line, "adoption "))
		case line == "whole":
			whole = true
		case line == "report":
			in.Drift = inventory.ReportDrift
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	for _, section := range archive.Files {
		for _, line := range strings.Split(strings.TrimSpace(string(section.Data)), "\n") {
			if line == "" {
				continue
			}
			readLine(t, &in, section.Name, strings.Fields(line))
		}
	}
	if whole {
		in.Faults = inventory.Faults(in.Changes, us, in.Adoption)
	}
	return in
}

func readLine(t *testing.T, in *inventory.Input, section string, words []string) {
	t.Helper()
	switch section {
	case "rendered":
		c := readChange(t, words)
		if c.Kind != inventory.Create || slices.Contains(words, "owned") {
			in.Owned = in.Owned.With(c.ID)
		}
		in.Changes = append(in.Changes, c)
	case "orphans":
		live, seen := readOrphan(t, words)
		in.Owned = in.Owned.With(live.ID)
		if seen {
			in.Orphans = append(in.Orphans, live)
		}
	case "strays":
		live, _ := readOrphan(t, words)
		in.Strays = append(in.Strays, live)
	case "vetoes":
		veto := inventory.Veto{Reason: inventory.Reason(words[1]), Message: strings.Join(words[3:], " ")}
		if words[2] != "-" {
			at, err := time.Parse(time.RFC3339, words[2])
			if err != nil {
				t.Fatal(err)
			}
			veto.Until = at
		}
		in.Vetoes[parse(t, words[0])] = veto
	case "used":
		id := parse(t, words[0])
		in.References[id] = append(in.References[id], strings.Join(words[1:], " "))
	case "kept":
		in.Kept[parse(t, words[0])] = inventory.Veto{Reason: inventory.Reason(words[1]), Message: strings.Join(words[2:], " ")}
	case "want":
	default:
		t.Fatalf("unknown section %q", section)
	}
}

func parse(t testing.TB, s string) inventory.ID {
	t.Helper()
	id, err := inventory.ParseFormat(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// objectOf makes an object of which only the identity matters.
func objectOf(id inventory.ID) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(id.GroupKind.WithVersion("v1"))
	obj.SetNamespace(id.Namespace)
	obj.SetName(id.Name)
	return obj
}

func readChange(t *testing.T, words []string) inventory.Change {
	t.Helper()
	id := parse(t, words[1])
	c := inventory.Change{
		ID: id, Object: objectOf(id), Owner: us.ID(),
		Kind: map[string]inventory.ChangeKind{"create": inventory.Create, "update": inventory.Update, "replace": inventory.Replace, "none": inventory.None}[words[0]],
	}
	switch c.Kind {
	case inventory.Create:
		c.Owner = ""
	case inventory.Replace:
		c.UID, c.Immutable = "uid", []string{"spec.field"}
	case inventory.None, inventory.Update:
	}
	for _, word := range words[2:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "owned": // on record already
		case "owner":
			c.Owner = value
		case "uid":
			c.UID = types.UID(value)
		case "deleting":
			c.Deleting = true
		case "unserved":
			c.Unserved = true
		case "drifted":
			manager, fields, _ := strings.Cut(value, ":")
			c.Drifted, c.DriftedBy = true, manager
			if fields != "" {
				c.DriftedFields = strings.Split(fields, ",")
			}
		case "conflict":
			conflict := &inventory.ConflictError{}
			for _, holder := range strings.Split(value, "|") {
				manager, fields, _ := strings.Cut(holder, ":")
				conflict.Holders = append(conflict.Holders, inventory.Holder{Manager: manager, Fields: strings.Split(fields, ",")})
			}
			c.Err = conflict
		case "rejected":
			c.Err = &inventory.RejectedError{Message: value}
		case "error":
			c.Err = errors.New(value)
		case "needs":
			annotate(t, c.Object, value)
		case "defines":
			c.Object.Object["spec"] = map[string]any{"group": parse(t, value+"/x").GroupKind.Group, "names": map[string]any{"kind": parse(t, value+"/x").GroupKind.Kind}}
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return c
}

func annotate(t *testing.T, obj *unstructured.Unstructured, needs string) {
	t.Helper()
	var deps dependson.DependencySet
	for _, s := range strings.Split(needs, ",") {
		deps = append(deps, parse(t, s))
	}
	if err := dependson.WriteAnnotation(obj, deps); err != nil {
		t.Fatal(err)
	}
}

func readOrphan(t *testing.T, words []string) (live inventory.Live, seen bool) {
	t.Helper()
	id := parse(t, words[0])
	live = inventory.Live{ID: id, UID: "uid", Annotations: map[string]string{inventory.OwnerAnnotation: us.ID()}}
	seen = true
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "owner":
			live.Annotations[inventory.OwnerAnnotation] = value
		case "uid":
			live.UID = types.UID(value)
		case "gone":
			live.Gone = true
		case "unseen":
			seen = false
		case "detach":
			live.Annotations[inventory.DeletionAnnotation] = "detach"
		case "keep":
			live.Annotations[inventory.OnRemoveAnnotation] = "keep"
		case "deleting":
			live.Deleting = true
		case "finalizer":
			live.Finalizers = append(live.Finalizers, value)
		case "foreign":
			live.Foreign = append(live.Foreign, value)
		case "defines":
			live.Defines = parse(t, value+"/x").GroupKind
		case "error":
			live.Err = errors.New(value)
		case "needs":
			obj := objectOf(id)
			annotate(t, obj, value)
			live.Annotations[inventory.DependsOnAnnotation] = obj.GetAnnotations()[inventory.DependsOnAnnotation]
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return live, seen
}
