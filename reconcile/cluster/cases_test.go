// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// TestCases plays every file of testdata/apply against an API server. A file
// starts with a comment that says what it is about, and may have the lines
// partial, force-conflicts, adoption with a policy, impatient for deletions, and show with the fields that matter. Then comes what
// happens, a section each:
//
//   - update MANAGER, apply MANAGER: somebody else writes objects, as a client
//     that sends all of them or by server-side apply.
//   - patch MANAGER KIND/NAME: a merge patch. Both take "status" before MANAGER.
//   - delete KIND/NAME: somebody deletes an object.
//   - git: a pass with these objects.
//   - restart: the process is another one.
//
// What is wanted is, for each pass, every object's decision and outcome, and in
// the end the fields that matter of each object, with who manages them.
func TestCases(t *testing.T) {
	casefile.Run(t, "testdata/apply/*.txt", func(t *testing.T, given *txtar.Archive) txtar.File {
		p := newPlay(t, string(given.Comment))
		for _, section := range given.Files {
			p.act(section.Name, string(section.Data))
		}
		p.tellLive()
		return casefile.Want(digest.ReplaceAllString(strings.ReplaceAll(p.told.String(), p.namespace, "NS"), "DIGEST"))
	})
}

// play is one case while it runs.
type play struct {
	*world
	t      *testing.T
	opts   cluster.Options
	mapper meta.ResettableRESTMapper
	shown  []string
	told   bytes.Buffer
	passes int
	ids    []inventory.ID
	uids   map[inventory.ID]types.UID // as first seen
}

func newPlay(t *testing.T, comment string) *play {
	t.Helper()
	p := &play{t: t, uids: map[inventory.ID]types.UID{}}
	for _, line := range strings.Split(comment, "\n") {
		switch words := strings.Fields(line); {
		case len(words) == 0, strings.HasPrefix(line, "#"):
		case line == "partial":
			p.opts.Partial = true
		case line == "impatient":
			p.opts.DeletionTimeout = 100 * time.Millisecond
		case line == "force-conflicts":
			p.opts.ForceConflicts = true
		case words[0] == "adoption":
			p.opts.Adoption = inventory.Adoption(words[1])
		case words[0] == "show":
			p.shown = words[1:]
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	p.world = newWorld(t, p.opts)
	p.world.adoption = p.opts.Adoption
	p.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.Client.Discovery()))
	return p
}

func (p *play) act(section, text string) {
	p.t.Helper()
	words := strings.Fields(section)
	var subresources []string
	if len(words) > 1 && words[1] == "status" {
		subresources, words = []string{"status"}, slices.Delete(words, 1, 2)
	}
	switch words[0] {
	case "update", "apply":
		for _, obj := range p.objects(p.t, text) {
			p.write(words[0], words[1], obj, subresources)
		}
	case "patch":
		id := p.parse(words[2])
		before := p.read(id)
		_, err := p.resource(id).Patch(p.t.Context(), id.Name, types.MergePatchType, p.json(text), metav1.PatchOptions{FieldManager: words[1]}, subresources...)
		p.need(err)
		p.noticed(id, before)
	case "delete":
		id := p.parse(words[1])
		before := p.read(id)
		p.need(p.resource(id).Delete(p.t.Context(), id.Name, metav1.DeleteOptions{}))
		p.noticed(id, before)
	case "git":
		p.pass(p.objects(p.t, text))
	case "restart":
		p.cluster = p.newCluster(p.t, p.opts)
	default:
		p.t.Fatalf("unknown section %q", section)
	}
}

// write is what somebody else does.
func (p *play) write(how, manager string, obj *unstructured.Unstructured, subresources []string) {
	p.t.Helper()
	id := inventory.IDOf(obj)
	before := p.read(id)
	resource := p.resource(id, obj.GroupVersionKind().Version)
	var err error
	switch {
	case how == "apply":
		data, marshalErr := obj.MarshalJSON()
		p.need(marshalErr)
		force := true
		_, err = resource.Patch(p.t.Context(), id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: manager, Force: &force}, subresources...)
	case before == nil:
		_, err = resource.Create(p.t.Context(), obj, metav1.CreateOptions{FieldManager: manager}, subresources...)
	default:
		obj.SetResourceVersion(before.GetResourceVersion())
		_, err = resource.Update(p.t.Context(), obj, metav1.UpdateOptions{FieldManager: manager}, subresources...)
	}
	p.need(err)
	p.noticed(id, before)
}

// noticed waits until the watches have told of a change to one of our objects.
func (p *play) noticed(id inventory.ID, before *unstructured.Unstructured) {
	p.t.Helper()
	if before == nil || before.GetLabels()[inventory.InstanceLabel] == "" {
		return
	}
	testkit.Eventually(p.t, patience, func(context.Context) error {
		want := "" // no watch of ours tells of it any more
		if now := p.read(id); now != nil && now.GetLabels()[inventory.InstanceLabel] == before.GetLabels()[inventory.InstanceLabel] {
			want = now.GetResourceVersion() // which a controller may have changed once more
		}
		if told, watched := p.cluster.Told(id); watched && told != want {
			return fmt.Errorf("the watch tells of version %q of %s, not of %q", told, inventory.Format(id), want)
		}
		return nil
	})
	select {
	case <-p.cluster.Changed():
	case <-time.After(patience):
		p.t.Fatalf("nothing was noticed of %s", inventory.Format(id))
	}
}

func (p *play) pass(objects []*unstructured.Unstructured) {
	p.t.Helper()
	plan, outcomes := p.world.pass(p.t, objects...)
	p.passes++
	fmt.Fprintf(&p.told, "pass %d\n", p.passes)
	results := map[inventory.ID]inventory.Outcome{}
	for _, o := range outcomes {
		results[o.ID] = o
	}
	for _, d := range plan.Decisions() {
		fmt.Fprintf(&p.told, "  %s %s %s", strings.ToLower(string(d.Action)), p.name(d.ID), d.Reason)
		if d.Message != "" {
			fmt.Fprintf(&p.told, ": %s", d.Message)
		}
		if o := results[d.ID]; d.Action.Acts() {
			fmt.Fprintf(&p.told, " -> %s", o.Result)
			if o.Err != nil {
				fmt.Fprintf(&p.told, ": %s", o.Err)
			}
		}
		p.told.WriteString("\n")
		if !slices.Contains(p.ids, d.ID) {
			p.ids = append(p.ids, d.ID)
		}
		if obj := p.read(d.ID); obj != nil && p.uids[d.ID] == "" {
			p.uids[d.ID] = obj.GetUID()
		}
	}
	p.watched(p.t, slices.DeleteFunc(outcomes, func(o inventory.Outcome) bool {
		return o.Err != nil || o.ID.GroupKind.Kind == "CustomResourceDefinition" // of which what it holds is asked for
	}))
	select {
	case <-p.cluster.Changed(): // our own doing
	default:
	}
}

// tellLive writes what is in the cluster.
func (p *play) tellLive() {
	p.t.Helper()
	slices.SortFunc(p.ids, inventory.Compare)
	for _, id := range p.ids {
		obj := p.read(id)
		switch {
		case obj == nil:
			fmt.Fprintf(&p.told, "%s is gone\n", p.name(id))
			continue
		case obj.GetUID() != p.uids[id]:
			fmt.Fprintf(&p.told, "%s, made anew\n", p.name(id))
		default:
			fmt.Fprintf(&p.told, "%s\n", p.name(id))
		}
		for _, at := range p.shown {
			if value, found := lookUp(obj.Object, strings.Split(at, ".")); found {
				text, err := json.Marshal(value)
				p.need(err)
				fmt.Fprintf(&p.told, "  %s: %s\n", at, text)
			}
		}
		for _, line := range p.managers(obj) {
			fmt.Fprintf(&p.told, "  %s\n", line)
		}
	}
}

// managers are who holds which of the shown fields.
func (p *play) managers(obj *unstructured.Unstructured) []string {
	p.t.Helper()
	var lines []string
	for _, e := range obj.GetManagedFields() {
		set := &fieldpath.Set{}
		p.need(set.FromJSON(e.FieldsV1.GetRawReader()))
		var fields []string
		for path := range set.All() {
			field := path.String()
			if slices.ContainsFunc(p.shown, func(at string) bool { return within(field, at) }) {
				fields = append(fields, field)
			}
		}
		if len(fields) > 0 {
			slices.Sort(fields)
			lines = append(lines, fmt.Sprintf("%s by %s: %s", e.Operation, e.Manager, strings.Join(fields, " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// digest is what depends on the name of the test's namespace.
var digest = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

var listIndex = regexp.MustCompile(`\.\d+(\..*)?$`)

// within reports whether a managed field is the shown one, or in it, or holds it
// as a whole. The entries of a list it does not tell apart.
func within(field, shown string) bool {
	shown = "." + listIndex.ReplaceAllString(shown, "")
	return strings.HasPrefix(field, shown) || strings.HasPrefix(shown, field+".")
}

// lookUp finds a field; a path element that is a number is a list's index.
func lookUp(value any, path []string) (any, bool) {
	for _, element := range path {
		switch node := value.(type) {
		case map[string]any:
			next, ok := node[element]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			var i int
			if _, err := fmt.Sscanf(element, "%d", &i); err != nil || i >= len(node) {
				return nil, false
			}
			value = node[i]
		default:
			return nil, false
		}
	}
	return value, true
}

func (p *play) parse(name string) inventory.ID {
	p.t.Helper()
	kind, name, _ := strings.Cut(strings.ReplaceAll(name, "NS", p.namespace), "/")
	id, err := inventory.ParseFormat(kind + "/" + p.namespace + "/" + name)
	p.need(err)
	return id
}

func (p *play) name(id inventory.ID) string {
	return strings.ReplaceAll(inventory.Format(id), p.namespace+"/", "")
}

func (p *play) json(text string) []byte {
	p.t.Helper()
	return []byte(strings.ReplaceAll(text, "NS", p.namespace))
}

// resource is where a kind is kept, at the version if there is one. A kind that has
// just been defined is waited for.
func (p *play) resource(id inventory.ID, versions ...string) dynamic.ResourceInterface {
	p.t.Helper()
	var mapping *meta.RESTMapping
	testkit.Eventually(p.t, patience, func(context.Context) (err error) {
		if mapping, err = p.mapper.RESTMapping(id.GroupKind, versions...); meta.IsNoMatchError(err) {
			p.mapper.Reset()
		}
		return err
	})
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return p.Dynamic.Resource(mapping.Resource)
	}
	return p.Dynamic.Resource(mapping.Resource).Namespace(id.Namespace)
}

// read is the live object, nil if there is none.
func (p *play) read(id inventory.ID) *unstructured.Unstructured {
	p.t.Helper()
	obj, err := p.resource(id).Get(context.WithoutCancel(p.t.Context()), id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	p.need(err)
	return obj
}

func (p *play) need(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}
