// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/cli-utils/pkg/object/dependson"

	"lamplighter.dev/inventory"
)

// drawID makes few different IDs, so that they meet.
func drawID(t *rapid.T) inventory.ID {
	kind := rapid.SampledFrom([]schema.GroupKind{
		{Kind: "ConfigMap"}, {Kind: "Secret"}, {Group: "apps", Kind: "DaemonSet"}, {Kind: "Namespace"},
		{Group: "example.com", Kind: "Lamp"}, {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	}).Draw(t, "kind")
	id := inventory.ID{GroupKind: kind}
	switch kind.Kind {
	case "Namespace":
		id.Name = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
	case "CustomResourceDefinition":
		id.Name = "lamps.example.com"
	default:
		id.Namespace = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
		id.Name = rapid.SampledFrom([]string{"a", "b", "c-b8kh5gt7f9", "c-m2cg4bfd6t"}).Draw(t, "name")
	}
	return id
}

func drawInput(t *rapid.T) inventory.Input {
	rendered := rapid.SliceOfNDistinct(rapid.Custom(drawID), 0, 8, rapid.ID[inventory.ID]).Draw(t, "rendered")
	owned := rapid.SliceOfNDistinct(rapid.Custom(drawID), 0, 10, rapid.ID[inventory.ID]).Draw(t, "owned")
	in := inventory.Input{
		Instance:   us,
		Owned:      inventory.NewSet(owned...),
		Vetoes:     map[inventory.ID]inventory.Veto{},
		References: map[inventory.ID][]string{},
		AllowPrune: rapid.Bool().Draw(t, "allow"),
		Ends:       rapid.Bool().Draw(t, "ends"),
		Kept:       map[inventory.ID]inventory.Veto{},
	}
	for _, id := range rendered {
		in.Changes = append(in.Changes, drawChange(t, id, rendered))
	}
	for _, id := range owned {
		if !slices.Contains(rendered, id) && rapid.IntRange(0, 9).Draw(t, "seen") > 0 {
			in.Orphans = append(in.Orphans, drawLive(t, id, owned))
		}
		if rapid.IntRange(0, 9).Draw(t, "kept") == 0 {
			in.Kept[id] = inventory.Veto{Reason: inventory.InUse}
		}
		if rapid.IntRange(0, 3).Draw(t, "used") == 0 {
			in.References[id] = []string{"pod x/p"}
		}
	}
	for _, id := range rapid.SliceOfNDistinct(rapid.Custom(drawID), 0, 3, rapid.ID[inventory.ID]).Draw(t, "strays") {
		in.Strays = append(in.Strays, drawLive(t, id, []inventory.ID{id}))
	}
	for _, id := range slices.Concat(rendered, owned) {
		if rapid.IntRange(0, 5).Draw(t, "veto") == 0 {
			in.Vetoes[id] = inventory.Veto{Reason: "WindowShut"}
		}
	}
	return in
}

func drawChange(t *rapid.T, id inventory.ID, others []inventory.ID) inventory.Change {
	c := inventory.Change{
		ID: id, Object: objectOf(id),
		Kind:  rapid.SampledFrom([]inventory.ChangeKind{inventory.None, inventory.Create, inventory.Update}).Draw(t, "change"),
		Owner: rapid.SampledFrom([]string{us.ID(), us.ID(), "", "somebody-else"}).Draw(t, "owner"),
		Err:   rapid.SampledFrom([]error{nil, nil, nil, nil, errors.New("timeout")}).Draw(t, "err"),
		UID:   rapid.SampledFrom([]types.UID{"1", "2", "3"}).Draw(t, "uid"),
	}
	if c.Kind == inventory.Create {
		c.Owner, c.UID = "", ""
	}
	if id.GroupKind.Kind == "CustomResourceDefinition" {
		c.Object.Object["spec"] = map[string]any{"group": "example.com", "names": map[string]any{"kind": "Lamp"}}
	}
	if rapid.IntRange(0, 4).Draw(t, "annotated") == 0 {
		dep := rapid.SampledFrom(others).Draw(t, "dependency")
		if err := dependson.WriteAnnotation(c.Object, dependson.DependencySet{dep}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func drawLive(t *rapid.T, id inventory.ID, others []inventory.ID) inventory.Live {
	live := inventory.Live{
		ID: id, UID: rapid.SampledFrom([]types.UID{"3", "4", "5", "6", "7"}).Draw(t, "uid"),
		Annotations: map[string]string{inventory.OwnerAnnotation: rapid.SampledFrom([]string{us.ID(), us.ID(), us.ID(), "", "somebody-else"}).Draw(t, "owner")},
		Gone:        rapid.IntRange(0, 9).Draw(t, "gone") == 0,
		Deleting:    rapid.IntRange(0, 9).Draw(t, "deleting") == 0,
		Foreign:     rapid.SampledFrom([][]string{nil, nil, nil, {"Secret/x/theirs"}}).Draw(t, "foreign"),
	}
	if id.GroupKind.Kind == "CustomResourceDefinition" {
		live.Defines = schema.GroupKind{Group: "example.com", Kind: "Lamp"}
	}
	if rapid.IntRange(0, 9).Draw(t, "detached") == 0 {
		live.Annotations[inventory.DeletionAnnotation] = "detach"
	}
	if rapid.IntRange(0, 4).Draw(t, "annotated") == 0 {
		obj := objectOf(id)
		dep := rapid.SampledFrom(others).Draw(t, "dependency")
		if err := dependson.WriteAnnotation(obj, dependson.DependencySet{dep}); err != nil {
			t.Fatal(err)
		}
		live.Annotations[inventory.DependsOnAnnotation] = obj.GetAnnotations()[inventory.DependsOnAnnotation]
	}
	return live
}

func TestPlanKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		plan, err := inventory.New(in)
		if err != nil {
			if _, ok := errors.AsType[*inventory.CycleError](err); !ok {
				t.Fatalf("got error %v, want none but a cycle", err)
			}
			return
		}
		decisions := map[inventory.ID]inventory.Decision{}
		for _, d := range plan.Decisions() {
			if _, twice := decisions[d.ID]; twice {
				t.Fatalf("%s is decided twice", inventory.Format(d.ID))
			}
			decisions[d.ID] = d
		}
		checkComplete(t, in, decisions)
		checkPrunes(t, in, decisions)
		checkGuards(t, in, plan)
		checkOrder(t, in, plan, decisions)
		checkInventory(t, in, plan, decisions)
	})
}

// Every object that is rendered, owned or a stray has a decision, and nothing else has.
func checkComplete(t *rapid.T, in inventory.Input, decisions map[inventory.ID]inventory.Decision) {
	want := in.Owned
	for _, c := range in.Changes {
		want = want.With(c.ID)
	}
	for _, l := range in.Strays {
		want = want.With(l.ID)
	}
	var got []inventory.ID
	for id := range decisions {
		got = append(got, id)
	}
	if !inventory.NewSet(got...).Equal(want) {
		t.Fatalf("decided: got %v, want %v", got, want.IDs())
	}
}

// What is pruned is ours, looked at, not rendered, not held, not used, and takes
// nothing with it that stays.
func checkPrunes(t *rapid.T, in inventory.Input, decisions map[inventory.ID]inventory.Decision) {
	for id, d := range decisions {
		if d.Action != inventory.Prune {
			continue
		}
		index := slices.IndexFunc(in.Orphans, func(l inventory.Live) bool { return l.ID == id })
		if index < 0 {
			t.Fatalf("%s is pruned and was not looked at", inventory.Format(id))
		}
		live := in.Orphans[index]
		if slices.ContainsFunc(in.Changes, func(c inventory.Change) bool { return c.UID == live.UID }) {
			t.Fatalf("%s is pruned and is rendered by another name", inventory.Format(id))
		}
		_, vetoed := in.Vetoes[id]
		if _, kept := in.Kept[id]; kept {
			t.Fatalf("%s is pruned and is to be kept", inventory.Format(id))
		}
		if live.Annotations[inventory.OwnerAnnotation] != us.ID() || inventory.StaysOnRemoval(live.Annotations) ||
			live.Gone || live.Deleting || vetoed || len(live.Foreign) > 0 || len(in.References[id]) > 0 {
			t.Fatalf("%s is pruned: %+v", inventory.Format(id), live)
		}
		for other, o := range decisions {
			member := id.GroupKind.Kind == "Namespace" && other.Namespace == id.Name || live.Defines == other.GroupKind && !live.Defines.Empty()
			if member && o.Action != inventory.Prune && o.Reason != inventory.Gone {
				t.Fatalf("%s is pruned and takes %s with it: %s %s", inventory.Format(id), inventory.Format(other), o.Action, o.Reason)
			}
		}
	}
}

// Unless it is allowed, nothing is pruned for an empty render, and never more
// than half, or one, of what is owned and not of an older generation.
func checkGuards(t *rapid.T, in inventory.Input, plan inventory.Plan) {
	var pruned, generated int
	for _, step := range plan.Prunes {
		for _, d := range step {
			if d.Action != inventory.Prune {
				continue
			}
			if pruned++; d.ID.Name == "c-b8kh5gt7f9" || d.ID.Name == "c-m2cg4bfd6t" {
				generated++
			}
		}
	}
	if in.AllowPrune || pruned == 0 {
		return
	}
	if len(in.Changes) == 0 {
		t.Fatal("pruned after an empty render")
	}
	if n := pruned - generated; n > 1 && n*2 > in.Owned.Len() {
		t.Fatalf("pruned %d of %d", n, in.Owned.Len())
	}
}

// What an object needs is in an earlier step, and is applied or in place.
func checkOrder(t *rapid.T, in inventory.Input, plan inventory.Plan, decisions map[inventory.ID]inventory.Decision) {
	done := map[inventory.ID]bool{}
	for _, step := range plan.Steps {
		for _, d := range step {
			for _, id := range d.After {
				need := decisions[id]
				if d.Action == inventory.Apply && (!done[id] || need.Action != inventory.Apply && need.Action != inventory.Keep) {
					t.Fatalf("%s is applied without %s: %s", inventory.Format(d.ID), inventory.Format(id), need.Action)
				}
			}
			if _, vetoed := in.Vetoes[d.ID]; vetoed && d.Action == inventory.Apply {
				t.Fatalf("%s is applied and held", inventory.Format(d.ID))
			}
		}
		for _, d := range step {
			done[d.ID] = true
		}
	}
}

// The inventory grows by what is touched, and shrinks only by what is settled.
func checkInventory(t *rapid.T, in inventory.Input, plan inventory.Plan, decisions map[inventory.ID]inventory.Decision) {
	want := in.Owned
	var outcomes []inventory.Outcome
	for id, d := range decisions {
		if d.Action == inventory.Apply || d.Action == inventory.Keep {
			want = want.With(id)
		}
		result := rapid.SampledFrom([]inventory.Result{inventory.ResultFailed, inventory.ResultDeleting, inventory.ResultPruned}).Draw(t, "result")
		if d.Action == inventory.Prune {
			outcomes = append(outcomes, inventory.Outcome{ID: id, Result: result})
		}
	}
	if !plan.Next.Equal(want) {
		t.Fatalf("next: got %v, want %v", plan.Next.IDs(), want.IDs())
	}
	settled := plan.Next.Settle(outcomes)
	for _, o := range outcomes {
		if left := !settled.Contains(o.ID); left != (o.Result == inventory.ResultPruned) {
			t.Fatalf("%s after %s: left %t", inventory.Format(o.ID), o.Result, left)
		}
	}
}

func TestOrderOfTheInputMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		shuffled := in
		shuffled.Changes = rapid.Permutation(in.Changes).Draw(t, "changes")
		shuffled.Strays = rapid.Permutation(in.Strays).Draw(t, "shuffled strays")
		shuffled.Orphans = rapid.Permutation(in.Orphans).Draw(t, "orphans")
		want, errWant := inventory.New(in)
		got, errGot := inventory.New(shuffled)
		if fmt.Sprint(errWant) != fmt.Sprint(errGot) {
			t.Fatalf("error: got %v, want %v", errGot, errWant)
		}
		if diff := cmp.Diff(describe(want, nil), describe(got, nil)); diff != "" {
			t.Fatalf("plan (-want +got):\n%s", diff)
		}
	})
}

func TestPassesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		for range 6 { // what was held by what is done now follows, pass by pass
			plan, err := inventory.New(in)
			if err != nil || !plan.Touches() {
				return
			}
			in = carryOut(in, plan)
		}
		t.Fatal("the sixth pass still has something to do")
	})
}

// What the guard holds it holds in the next pass too, whatever has been applied.
func TestGuardDoesNotLetGoByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.AllowPrune, in.Ends = false, false
		for range 3 {
			plan, err := inventory.New(in)
			if err != nil {
				return
			}
			held := map[inventory.ID]bool{}
			for _, d := range plan.Decisions() {
				held[d.ID] = d.Reason == inventory.MassDelete || d.Reason == inventory.EmptyRender
			}
			in = carryOut(in, plan)
			again, err := inventory.New(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range again.Decisions() {
				if held[d.ID] && d.Action == inventory.Prune {
					t.Fatalf("%s was held, and is pruned by the next pass", inventory.Format(d.ID))
				}
			}
		}
	})
}

// carryOut is a cluster in which everything succeeds.
func carryOut(in inventory.Input, plan inventory.Plan) inventory.Input {
	in.Changes = slices.Clone(in.Changes)
	var outcomes []inventory.Outcome
	for _, d := range plan.Decisions() {
		switch d.Action {
		case inventory.Apply:
			i := slices.IndexFunc(in.Changes, func(c inventory.Change) bool { return c.ID == d.ID })
			in.Changes[i].Kind, in.Changes[i].Owner = inventory.None, us.ID()
		case inventory.Prune:
			outcomes = append(outcomes, inventory.Outcome{ID: d.ID, Result: inventory.ResultPruned})
		case inventory.Release:
			outcomes = append(outcomes, inventory.Outcome{ID: d.ID, Result: inventory.ResultReleased})
		case inventory.Keep, inventory.Hold, inventory.Refuse:
		}
	}
	in.Owned, in.Guarded = plan.Next.Settle(outcomes), plan.Guarded
	in.Strays = slices.DeleteFunc(slices.Clone(in.Strays), func(l inventory.Live) bool { // without our marks by now
		return slices.ContainsFunc(outcomes, func(o inventory.Outcome) bool { return o.ID == l.ID })
	})
	return in
}

// The order of an earlier plan spares work, and decides nothing.
func TestAnEarlierOrderMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, other := drawInput(t), drawInput(t)
		want, errWant := inventory.New(in)
		for _, earlier := range []inventory.Input{in, other} {
			before, err := inventory.New(earlier)
			if err != nil {
				continue
			}
			in.Order = before.Order
			got, errGot := inventory.New(in)
			if (errGot == nil) != (errWant == nil) {
				t.Fatalf("%v with the order of another plan, %v without", errGot, errWant)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.Plan{}, "Order"), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
				t.Fatal(diff)
			}
			if errGot == nil && !got.Order.Is(in.Changes) {
				t.Fatal("the order of a plan is that of other objects")
			}
		}
	})
}
