// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// everyWriteOfACommit is what a pass writes for the commit under test.
var everyWriteOfACommit = []*regexp.Regexp{
	regexp.MustCompile(`^PUT .*-inventory$`),
	regexp.MustCompile(`^PUT .*-ledger$`),
	regexp.MustCompile(`^PATCH .*/customresourcedefinitions/lanterns\.`),
	regexp.MustCompile(`^PATCH .*/lanterns/`),
	regexp.MustCompile(`^PATCH .*/configmaps/added-`),
	regexp.MustCompile(`^PATCH .*/configmaps/changed-`),
	regexp.MustCompile(`^DELETE .*/configmaps/dropped-`),
	regexp.MustCompile(`^DELETE .*/lamps/`),
	regexp.MustCompile(`^DELETE .*/customresourcedefinitions/lamps\.`),
}

// Wherever a process dies on the way from one commit to another, no object is
// lost sight of: each with our label is in the inventory or in Git. The next
// process needs one pass.
func TestProcessesDieOnTheWayToACommit(t *testing.T) {
	t.Parallel()
	const most, step, wide = 48, 3, 12
	for n := 1; n <= most; n += step {
		t.Run(fmt.Sprintf("after write %d", n), func(t *testing.T) {
			t.Parallel()
			newTransition(t).dies(t, life{mortal: newMortal(n), inFlight: 1})
		})
	}
	// Side by side, writes are under way when the process dies.
	for n := 2; n <= most; n += wide {
		t.Run(fmt.Sprintf("among others, after write %d", n), func(t *testing.T) {
			t.Parallel()
			newTransition(t).dies(t, life{mortal: newMortal(n), inFlight: 32})
		})
	}
}

// Every write of the way is one that a process dies of twice: before the API
// server does it, and when it is done and the process has not heard of it. From
// the third on it is the second of its process: with the first each begins its
// term, and of those that die of that none gets further than the one before.
func TestProcessesDieAtEveryWriteOfACommit(t *testing.T) {
	t.Parallel()
	w := newTransition(t)
	w.begin(t)
	var written []string
	for {
		last := min(len(written)/2+1, 2)
		before := &mortal{left: last, unsent: true, died: make(chan struct{})}
		w.oneLife(t, life{mortal: before, inFlight: 1})
		after := newMortal(last)
		w.oneLife(t, life{mortal: after, inFlight: 1})
		if len(after.written()) < last {
			break
		}
		if before.lastWrite() != after.lastWrite() {
			t.Errorf("the next process writes %s, not %s", after.lastWrite(), before.lastWrite())
		}
		if written = append(written, after.lastWrite()); len(written) > 100 {
			t.Fatalf("processes that die do not come to an end: %q", written)
		}
	}
	for _, want := range everyWriteOfACommit {
		if !slices.ContainsFunc(written, want.MatchString) {
			t.Errorf("no process died of %s, only of %q", want, written)
		}
	}
	w.holds(t, w.second)
}

// Agents are killed on the same way, to and fro, each at something that is seen
// of it. The next one finishes what it was at.
func TestAgentsAreKilledOnTheWayToACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	way := transitionOf(t, w.Cluster, w.instance)
	commit := func(message string, objects []*unstructured.Unstructured) {
		w.commit(t, message, w.fleet(map[string]string{"objects.yaml": documents(t, objects)}))
	}
	agent := w.spawn(t, "--listen", "")
	commit("first", way.first)
	way.settles(t, way.first)
	for _, m := range []moment{inventoryWritten, objectAdded, objectChanged, objectDeleted} {
		way.first, way.second = way.second, way.first
		next := w.next(t, m)
		commit(string(m), way.first)
		next()
		agent.kill(t)
		way.losesNothing(t, way.first)
		w.dropLease(t)
		agent = w.spawn(t, "--listen", "")
		way.settles(t, way.first)
	}
}

// documents are objects as one file.
func documents(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String()
}

// settles waits until the cluster holds these objects, and the inventory too.
func (w *transition) settles(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		if diff := w.differs(t, objects); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// oneLife makes a pass that may be cut short.
func (w *transition) oneLife(t *testing.T, l life) {
	t.Helper()
	p := w.live(t, l)
	defer p.end()
	report, err := p.pass(w.second)
	for _, o := range report.Outcomes {
		if err = cmp.Or(err, o.Err); err != nil {
			break
		}
	}
	if err != nil && l.mortal.lastWrite() == "" {
		t.Fatalf("a process ends without writing anything: %v", err)
	}
	w.losesNothing(t, w.second)
}

// transition is an instance on its way from one commit to the next.
type transition struct {
	*testkit.Cluster
	instance      inventory.Instance
	first, second []*unstructured.Unstructured
}

// newTransition is one to a commit of 40 objects, 16 of them new and 16 changed;
// 10 of the commit before are gone. Each defines a kind that the other does not.
func newTransition(t *testing.T) *transition {
	t.Helper()
	kit := testkit.Sandbox(t)
	namespace := kit.Namespace(t)
	return transitionOf(t, kit, inventory.Instance{Namespace: namespace, Name: "lamp-" + namespace[len(namespace)-5:]})
}

func transitionOf(t *testing.T, kit *testkit.Cluster, instance inventory.Instance) *transition {
	t.Helper()
	w := &transition{Cluster: kit, instance: instance}
	some := func(n int, name, content string) []*unstructured.Unstructured {
		var out []*unstructured.Unstructured
		for i := range n {
			out = append(out, w.object(t, configMap(fmt.Sprintf("%s-%02d", name, i), content)))
		}
		return out
	}
	kept := append(some(6, "kept", "1"),
		w.object(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: kept}\n"),
		w.object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: kept}\nstringData: {token: letmein}\n"))
	port := func(number string) *unstructured.Unstructured {
		return w.object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: changed}\nspec: {ports: [{port: "+number+"}]}\n")
	}
	role := w.object(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: added}\n")
	w.first = slices.Concat(kept, some(15, "changed", "1"), some(8, "dropped", "1"), w.kind(t, "Lamp"), []*unstructured.Unstructured{port("80")})
	w.second = slices.Concat(kept, some(15, "changed", "2"), some(13, "added", "1"), w.kind(t, "Lantern"), []*unstructured.Unstructured{port("81"), role})
	if len(w.second) != 40 {
		t.Fatalf("the commit has %d objects", len(w.second))
	}
	return w
}

func (w *transition) object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	if inventory.Defines(obj).Empty() {
		obj.SetNamespace(w.instance.Namespace)
	}
	return obj
}

// kind is the definition of a kind and an object of it.
func (w *transition) kind(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	group, plural := w.group(), strings.ToLower(kind)+"s"
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := w.Dynamic.Resource(definitions).Delete(ctx, plural+"."+group, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return []*unstructured.Unstructured{
		w.object(t, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {lit: {type: boolean}}}}}
`, plural, group, kind)),
		w.object(t, fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: one}\nlit: true\n", group, kind)),
	}
}

func (w *transition) group() string { return w.instance.Name + ".example.com" }

// begin brings the first commit into force.
func (w *transition) begin(t *testing.T) {
	t.Helper()
	p := w.live(t, life{partial: true, inFlight: 32})
	defer p.end()
	w.passes(t, p, w.first)
	w.holds(t, w.first)
}

// passes makes a pass of which everything comes about.
func (w *transition) passes(t *testing.T, p passing, objects []*unstructured.Unstructured) {
	t.Helper()
	report, err := p.pass(objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Err != nil {
			t.Errorf("%s: %v", inventory.Format(o.ID), o.Err)
		}
	}
}

// dies lets one process die on the way to the second commit, and another finish.
func (w *transition) dies(t *testing.T, l life) {
	t.Helper()
	w.begin(t)
	w.oneLife(t, l)
	t.Logf("last write: %s", l.mortal.lastWrite())

	next := w.live(t, life{inFlight: 32})
	defer next.end()
	w.passes(t, next, w.second)
	w.losesNothing(t, w.second)
	w.holds(t, w.second)
	if report, err := next.pass(w.second); err != nil || report.Plan.Objects.Touches() {
		t.Errorf("another pass finds something to do: %+v, %v", report.Outcomes, err)
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// labelled are the objects in the cluster that carry our label, by ID.
func (w *transition) labelled(t *testing.T) map[inventory.ID]*unstructured.Unstructured {
	t.Helper()
	found := map[inventory.ID]*unstructured.Unstructured{}
	for _, r := range []schema.GroupVersionResource{
		definitions,
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: w.group(), Version: "v1", Resource: "lamps"}, {Group: w.group(), Version: "v1", Resource: "lanterns"},
	} {
		list, err := w.Dynamic.Resource(r).List(t.Context(), metav1.ListOptions{LabelSelector: inventory.InstanceLabel + "=" + w.instance.Name})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			found[inventory.IDOf(&list.Items[i])] = &list.Items[i]
		}
	}
	return found
}

// losesNothing checks that every object of ours is in the inventory or in Git.
func (w *transition) losesNothing(t *testing.T, git []*unstructured.Unstructured) {
	t.Helper()
	live := w.labelled(t) // before the inventory: an agent may be at work
	state := w.world().stateNow(t)
	for id := range live {
		inGit := slices.ContainsFunc(git, func(o *unstructured.Unstructured) bool { return inventory.IDOf(o) == id })
		if !inGit && !state.Inventory.Contains(id) {
			t.Errorf("%s is ours, and neither in the inventory nor in Git", inventory.Format(id))
		}
	}
}

// holds checks that the cluster and the inventory have these objects as they
// are, and no other.
func (w *transition) holds(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	if diff := w.differs(t, objects); diff != "" {
		t.Error(diff)
	}
}

// differs says in what the cluster or the inventory are not as these objects.
func (w *transition) differs(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	live := w.labelled(t)
	var want, got, owned []string
	for _, o := range objects {
		id := inventory.IDOf(o)
		want = append(want, inventory.Format(id))
		if l := live[id]; l != nil && o.GetKind() == "ConfigMap" && !gocmp.Equal(o.Object["data"], l.Object["data"]) {
			return fmt.Sprintf("%s: got %v, want %v", inventory.Format(id), l.Object["data"], o.Object["data"])
		}
	}
	for id := range live {
		got = append(got, inventory.Format(id))
	}
	for _, id := range w.world().stateNow(t).Inventory.IDs() {
		owned = append(owned, inventory.Format(id))
	}
	for _, names := range [][]string{want, got, owned} {
		slices.Sort(names)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		return "objects (-want +got):\n" + diff
	}
	if diff := gocmp.Diff(want, owned); diff != "" {
		return "inventory (-want +got):\n" + diff
	}
	return ""
}

// world is the instance without a repository.
func (w *transition) world() *world { return &world{Cluster: w.Cluster, instance: w.instance} }
