// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// TestDriftCases runs every file of testdata/drift against an API server. A file
// starts with a comment that says what it is about and, for what is not the
// default, the line report or force. Its sections follow one another:
//
//   - git: the object in Git from now on. A pass is made of it.
//   - somebody: what others do to it, one thing a line: a manager, what it does
//     (merge, apply, take, json, or status for a merge of the status), and the
//     patch. Then a process that knows nothing makes two passes.
//   - want: what the first pass of each section decided, then what is left when
//     passes ask nothing any more: the object, and who holds which fields.
func TestDriftCases(t *testing.T) {
	casefile.Run(t, "testdata/drift/*.txt", func(t *testing.T, given *txtar.Archive) txtar.File {
		return casefile.Want(driftCase(t, given))
	})
}

func driftCase(t *testing.T, archive *txtar.Archive) string {
	var opts cluster.Options
	w := newWorld(t, opts)
	for line := range strings.Lines(string(archive.Comment)) {
		switch line = strings.TrimSpace(line); line {
		case "report":
			w.drift = inventory.ReportDrift
		case "force":
			opts.ForceConflicts = true
			w.cluster = w.newCluster(t, opts)
		default:
			if line != "" && !strings.HasPrefix(line, "#") {
				t.Fatalf("unknown line %q", line)
			}
		}
	}
	var (
		out strings.Builder
		git *unstructured.Unstructured
	)
	for _, section := range archive.Files {
		switch section.Name {
		case "git":
			git = w.objects(t, string(section.Data))[0]
		case "somebody":
			for line := range strings.Lines(string(section.Data)) {
				w.interfere(t, git, strings.TrimSpace(line))
			}
			w.cluster = w.newCluster(t, opts)
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
		plan, outcomes := w.pass(t, git)
		d := plan.Decisions()[0]
		fmt.Fprintf(&out, "%s: %s %s", section.Name, strings.ToLower(string(d.Action)), d.Reason)
		if d.Message != "" {
			fmt.Fprintf(&out, ": %s", d.Message)
		}
		fmt.Fprintf(&out, " -> %s\n", outcomes[0].Result)
		again, _ := w.pass(t, git)
		if a := again.Decisions()[0].Action; d.Action == inventory.Apply && a != inventory.Keep {
			fmt.Fprintf(&out, "and then: %s %s\n", strings.ToLower(string(a)), again.Decisions()[0].Message)
		}
	}
	w.wantQuiet(t, git)
	live, err := w.Dynamic.Resource(w.resourceOf(t, git)).Namespace(git.GetNamespace()).Get(t.Context(), git.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.describe(t, &out, live)
	return out.String()
}

// interfere does what a line of a section somebody says.
func (w *world) interfere(t *testing.T, git *unstructured.Unstructured, line string) {
	t.Helper()
	manager, rest, _ := strings.Cut(line, " ")
	how, patch, _ := strings.Cut(rest, " ")
	options := metav1.PatchOptions{FieldManager: manager}
	kind, subresources := types.MergePatchType, []string(nil)
	switch how {
	case "merge":
	case "status", "scale":
		subresources = []string{how}
	case "json":
		kind = types.JSONPatchType
	case "apply", "take":
		kind = types.ApplyPatchType
		options.Force = new(bool)
		*options.Force = how == "take"
		patch = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, git.GetAPIVersion(), git.GetKind(), strings.TrimPrefix(patch, "{"))
	default:
		t.Fatalf("unknown way %q to change an object", how)
	}
	_, err := w.Dynamic.Resource(w.resourceOf(t, git)).Namespace(git.GetNamespace()).Patch(t.Context(), git.GetName(), kind, []byte(patch), options, subresources...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// describe writes an object, without what the API server adds by itself, and who
// holds its fields.
func (w *world) describe(t *testing.T, out *strings.Builder, live *unstructured.Unstructured) {
	t.Helper()
	managed := live.GetManagedFields()
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(live.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(live.Object, "metadata", "annotations", inventory.AppliedAnnotation)
	unstructured.RemoveNestedField(live.Object, "status")
	text, err := yaml.Marshal(live.Object)
	if err != nil {
		t.Fatal(err)
	}
	var holders []string
	for _, e := range managed {
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			t.Fatal(err)
		}
		if e.Subresource == "status" {
			continue
		}
		var paths []string
		fields.Leaves().Iterate(func(p fieldpath.Path) {
			if s := p.String(); !strings.HasPrefix(s, ".metadata.annotations."+inventory.AppliedAnnotation) {
				paths = append(paths, s)
			}
		})
		slices.Sort(paths)
		holders = append(holders, fmt.Sprintf("%s (%s): %s\n", e.Manager, strings.ToLower(string(e.Operation)), strings.Join(paths, " ")))
	}
	slices.Sort(holders)
	left := strings.ReplaceAll(string(text)+strings.Join(holders, ""), w.instance.ID(), "INVENTORY")
	out.WriteString(strings.ReplaceAll(left, w.namespace, "NS"))
}

func (w *world) resourceOf(t *testing.T, obj *unstructured.Unstructured) schema.GroupVersionResource {
	t.Helper()
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return resource
}
