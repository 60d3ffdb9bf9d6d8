// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Wherever a process dies, the next one finishes the work, and no object that
// we made is ever without an entry in the stored inventory.
func TestPassesConvergeWhereverTheProcessDies(t *testing.T) {
	first := map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"}
	second := map[string]string{"b": "2", "c": "1", "d": "1", "e": "1"}
	for dies := 1; ; dies++ {
		w := &world{objects: map[string]string{}}
		w.settle(t, first)
		w.writes, w.dies = 0, dies
		_, err := w.process().Pass(t.Context(), source(second))
		if err == nil && w.writes < dies {
			if dies < 5 {
				t.Fatalf("a pass wrote only %d times: nothing was tested", w.writes)
			}
			return
		}
		w.writes, w.dies = 0, 0
		w.settle(t, second)
		if diff := cmp.Diff(second, w.objects); diff != "" {
			t.Errorf("died at write %d: %s", dies, diff)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(second)), names(w.stored.Inventory)); diff != "" {
			t.Errorf("died at write %d: inventory %s", dies, diff)
		}
		if t.Failed() {
			return
		}
	}
}

func TestPassWithNothingToDoWritesNothing(t *testing.T) {
	fleet := map[string]string{"a": "1", "b": "1"}
	w := &world{objects: map[string]string{}}
	p := w.settle(t, fleet)
	w.writes = 0
	if _, err := p.Pass(t.Context(), source(fleet)); err != nil {
		t.Fatal(err)
	}
	if w.writes != 0 {
		t.Errorf("%d writes, want none", w.writes)
	}
}

// Nothing is done that could not be recorded first.
func TestNothingIsDoneWhenTheIntentCannotBeRecorded(t *testing.T) {
	w := &world{objects: map[string]string{}, dies: 1}
	if _, err := w.process().Pass(t.Context(), source(map[string]string{"a": "1"})); !errors.Is(err, errDead) {
		t.Errorf("got %v, want %v", err, errDead)
	}
	if len(w.objects) != 0 {
		t.Errorf("objects %v were made without a record", w.objects)
	}
}

// What takes the place of an orphan has to be there before the orphan goes.
func TestNothingIsPrunedWhenAnApplyFailed(t *testing.T) {
	w := &world{objects: map[string]string{}}
	w.settle(t, map[string]string{"a": "1", "b": "1", "old": "1"})
	w.fails = "new"
	next := map[string]string{"a": "1", "b": "1", "new": "1"}
	if _, err := w.process().Pass(t.Context(), source(next)); err != nil {
		t.Fatal(err)
	}
	if _, kept := w.objects["old"]; !kept {
		t.Error("old is gone though new could not be made")
	}
	w.fails = ""
	w.settle(t, next)
	if diff := cmp.Diff(next, w.objects); diff != "" {
		t.Error(diff)
	}
}

var errDead = errors.New("the process is dead")

// world is a cluster of ConfigMaps and the stored state. From write number dies
// on, nothing is written any more; 0 is never.
type world struct {
	objects map[string]string // content by name
	stored  State
	writes  int
	dies    int
	fails   string // the object that cannot be applied
}

func (w *world) process() *Reconciler {
	return NewReconciler(Options{Instance: us, Cluster: w, Store: w, Now: func() time.Time { return shut }})
}

// settle runs passes of a fresh process until one has nothing to write.
func (w *world) settle(t *testing.T, fleet map[string]string) *Reconciler {
	t.Helper()
	p := w.process()
	for range 5 {
		before := w.writes
		if _, err := p.Pass(t.Context(), source(fleet)); err != nil {
			t.Fatal(err)
		}
		w.check(t)
		if w.writes == before {
			return p
		}
	}
	t.Fatal("passes do not come to an end")
	return nil
}

// check looks for objects that nobody would prune.
func (w *world) check(t *testing.T) {
	t.Helper()
	for name := range w.objects {
		if !w.stored.Inventory.Contains(configMap(name)) {
			t.Errorf("ConfigMap %s exists and is not in the inventory", name)
		}
	}
}

func (w *world) write() error {
	if w.writes++; w.dies != 0 && w.writes >= w.dies {
		return errDead
	}
	return nil
}

func (w *world) Load(context.Context) (State, error) { return w.stored, nil }

func (w *world) Save(_ context.Context, s State) error {
	if cmp.Equal(s, w.stored, cmp.Comparer(inventory.Set.Equal)) {
		return nil
	}
	if err := w.write(); err != nil {
		return err
	}
	w.stored = s
	return nil
}

func (w *world) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) { return nil, nil, nil }

func (w *world) Inspect(_ context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	var out []inventory.Change
	for _, o := range objects {
		c := inventory.Change{ID: inventory.IDOf(o), Kind: inventory.Update, Object: o, Owner: us.ID()}
		switch live, exists := w.objects[o.GetName()]; {
		case !exists:
			c.Kind, c.Owner = inventory.Create, ""
		case live == content(o):
			c.Kind = inventory.None
		}
		out = append(out, c)
	}
	return out, nil
}

func (w *world) Orphans(_ context.Context, ids []inventory.ID) ([]inventory.Live, error) {
	var out []inventory.Live
	for _, id := range ids {
		_, exists := w.objects[id.Name]
		out = append(out, inventory.Live{ID: id, Gone: !exists, Annotations: owned})
	}
	return out, nil
}

func (w *world) Apply(_ context.Context, steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) []inventory.Outcome {
	return w.each(steps, review, inventory.Apply, func(d inventory.Decision) inventory.Result {
		w.objects[d.ID.Name] = content(d.Object)
		return inventory.ResultConfigured
	})
}

func (w *world) Prune(_ context.Context, steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) []inventory.Outcome {
	return w.each(steps, review, inventory.Prune, func(d inventory.Decision) inventory.Result {
		delete(w.objects, d.ID.Name)
		return inventory.ResultPruned
	})
}

func (w *world) each(steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision, action inventory.Action, do func(inventory.Decision) inventory.Result) []inventory.Outcome {
	var out []inventory.Outcome
	for _, d := range reviewed(steps, review) {
		o := inventory.Outcome{ID: d.ID, Result: inventory.ResultUnchanged}
		switch {
		case d.Action == inventory.Release:
			o.Result = inventory.ResultReleased
		case d.Action != action:
		case d.ID.Name == w.fails:
			o.Result, o.Err = inventory.ResultFailed, errors.New("denied")
		default:
			if o.Err = w.write(); o.Err != nil {
				o.Result = inventory.ResultFailed
			} else {
				o.Result = do(d)
			}
		}
		out = append(out, o)
	}
	return out
}

// reviewed are the decisions of all steps, one step after another.
func reviewed(steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) iter.Seq2[int, inventory.Decision] {
	return func(yield func(int, inventory.Decision) bool) {
		for i, step := range steps {
			for _, d := range review(step) {
				if !yield(i, d) {
					return
				}
			}
		}
	}
}

func (w *world) Template(context.Context, types.NamespacedName, string) (map[string]any, error) {
	return nil, errors.New("there is none")
}

func (w *world) Evict(_ context.Context, d rollout.Decision) rollout.Attempt {
	return rollout.Attempt{Decision: d, Result: rollout.Sent}
}

func source(contentByName map[string]string) Source {
	fleet := &Fleet{Commit: Commit{Hash: fmt.Sprint(contentByName)}}
	for _, name := range slices.Sorted(maps.Keys(contentByName)) {
		o := object(configMap(name))
		o.Object["data"] = map[string]any{"content": contentByName[name]}
		fleet.Objects = append(fleet.Objects, o)
	}
	return Source{Fleet: fleet}
}

func content(o *unstructured.Unstructured) string {
	s, _, _ := unstructured.NestedString(o.Object, "data", "content") // source made it
	return s
}

func names(s inventory.Set) []string {
	var out []string
	for _, id := range s.IDs() {
		out = append(out, id.Name)
	}
	return out
}
