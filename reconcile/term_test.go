// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

// Two that take themselves for leaders, with a commit each, do not fight: from the
// first write of the second on, the first does nothing.
func TestLeaderOfBeforeDoesNothingMore(t *testing.T) {
	older, newer := map[string]string{"a": "1"}, map[string]string{"a": "2"}
	for _, test := range []struct {
		name  string
		fleet map[string]string
		told  bool // by its watch that somebody has written
	}{
		{"it is told", older, true},
		{"it has something to record", map[string]string{"a": "1", "b": "1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &world{objects: map[string]string{}}
			version := 0
			first := leader(w, &version, "first")
			if _, err := first.Pass(t.Context(), source(older)); err != nil {
				t.Fatal(err)
			}
			second := leader(w, &version, "second")
			if _, err := second.Pass(t.Context(), source(newer)); err != nil {
				t.Fatal(err)
			}
			if test.told {
				first.Forget()
			} else if _, err := first.Pass(t.Context(), source(test.fleet)); !errors.Is(err, errStale) {
				t.Fatalf("got %v, want %v", err, errStale)
			}
			for range 2 { // and so it stays
				if _, err := first.Pass(t.Context(), source(test.fleet)); !errors.Is(err, ErrDeposed) || err.Error() != "another process leads: second" {
					t.Fatalf("got %v, want that second leads", err)
				}
			}
			if diff := cmp.Diff(newer, w.objects); diff != "" {
				t.Error(diff)
			}
			if _, err := second.Pass(t.Context(), source(newer)); err != nil {
				t.Errorf("the second no longer leads: %v", err)
			}
		})
	}
}

// A ledger that is lost deposes nobody: its leader begins another term.
func TestLeaderGoesOnWithoutItsLedger(t *testing.T) {
	w, version := &world{objects: map[string]string{}}, 0
	r := leader(w, &version, "first")
	for _, lost := range []bool{false, true, true} {
		if lost {
			w.stored.Ledger = rollout.Ledger{}
			version++
			r.Forget()
		}
		if _, err := r.Pass(t.Context(), source(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.stored.Ledger.Term; got.Number != 3 || got.Leader != "first" || !got.Since.Equal(shut) {
		t.Errorf("got %+v, want the third term of the first", got)
	}
}

// One that has nothing to do writes nothing, and deposes nobody.
func TestIdleProcessBeginsNoTerm(t *testing.T) {
	w, version, fleet := &world{objects: map[string]string{}}, 0, map[string]string{"a": "1"}
	first := leader(w, &version, "first")
	for range 2 {
		if _, err := first.Pass(t.Context(), source(fleet)); err != nil {
			t.Fatal(err)
		}
	}
	w.writes = 0
	if _, err := leader(w, &version, "second").Pass(t.Context(), source(fleet)); err != nil {
		t.Fatal(err)
	}
	if w.writes != 0 || w.stored.Ledger.Term.Leader != "first" {
		t.Errorf("%d writes, and %+v leads", w.writes, w.stored.Ledger.Term)
	}
	w.stored.Ledger.Visits = []rollout.Visit{{Policy: "p", Node: "n"}}
	if _, err := leader(w, &version, "third").Pass(t.Context(), source(fleet)); err != nil {
		t.Fatal(err)
	}
	if w.stored.Ledger.Term.Leader != "third" {
		t.Errorf("a visit is open, and %+v leads", w.stored.Ledger.Term)
	}
}

func leader(w *world, version *int, identity string) *Reconciler {
	s := &desk{world: w, version: version}
	return NewReconciler(Options{Instance: us, Identity: identity, Cluster: w, Store: s, Now: func() time.Time { return shut }})
}

// desk is one process's way to the state of a world.
type desk struct {
	*world
	version *int // of the state
	seen    int
	known   State
}

var errStale = errors.New("somebody has written")

func (d *desk) Load(context.Context) (State, error) {
	d.seen, d.known = *d.version, d.stored
	return d.stored, nil
}

func (d *desk) Save(ctx context.Context, s State) error {
	if cmp.Equal(s, d.known, cmp.Comparer(inventory.Set.Equal)) {
		return nil
	}
	if d.seen != *d.version {
		return errStale
	}
	*d.version++
	d.seen, d.known = *d.version, s
	return d.world.Save(ctx, s)
}
