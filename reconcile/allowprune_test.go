// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The guard against a mass deletion is lifted for the commit that is named, and
// is back for the next one, whoever forgets to take the word back.
func TestMassDeletionIsAllowedForOneCommit(t *testing.T) {
	all := map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1", "f": "1", "g": "1"}
	meant, accident := map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "2"}
	w := &world{objects: map[string]string{}}
	w.settle(t, all)
	hash := source(meant).Fleet.Commit.Hash
	process := func() *Reconciler {
		return NewReconciler(Options{Instance: us, Cluster: w, Store: w, AllowPruneOf: hash[:len(hash)-3], Now: func() time.Time { return shut }})
	}
	r := process()
	for _, step := range []struct {
		commit map[string]string
		want   map[string]string
	}{
		{map[string]string{"a": "1", "b": "1"}, all},
		{meant, meant},
		{accident, map[string]string{"a": "2", "b": "1", "c": "1"}},
	} {
		if _, err := r.Pass(t.Context(), source(step.commit)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, w.objects); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", step.commit, diff)
		}
	}
	if _, err := process().Pass(t.Context(), source(accident)); err != nil || len(w.objects) != 3 {
		t.Errorf("after a restart: %v %v, want the guard to be back", w.objects, err)
	}
}

func TestCommitIsWhatItsHashBeginsWith(t *testing.T) {
	c := Commit{Hash: "9f2c1e7d5b0c"}
	for hash, want := range map[string]bool{"9f2c1e7": true, "9f2c1e7d5b0c": true, "": false, "9f2c1e8": false, "9f2c1e7d5b0c0": false} {
		if got := c.Is(hash); got != want {
			t.Errorf("%q: got %t, want %t", hash, got, want)
		}
	}
	if (Commit{}).Is("") {
		t.Error("a working tree is no commit that anybody could name")
	}
}

// A new name for everything is held for as long as nobody says that it is meant:
// the objects with the new names are no reason to let those with the old ones go.
func TestMassDeletionIsHeldInLaterPassesToo(t *testing.T) {
	was := map[string]string{"a": "1", "b": "1"}
	is := map[string]string{"new-a": "1", "new-b": "1"}
	both := map[string]string{"a": "1", "b": "1", "new-a": "1", "new-b": "1"}
	for dies := range 6 {
		w := &world{objects: map[string]string{}}
		w.settle(t, was)
		w.writes, w.dies = 0, dies
		_, _ = w.process().Pass(t.Context(), source(is)) // it may die anywhere
		w.writes, w.dies = 0, 0
		w.settle(t, is)
		w.settle(t, map[string]string{"new-a": "2", "new-b": "1"})
		w.settle(t, is)
		if diff := cmp.Diff(both, w.objects); diff != "" {
			t.Errorf("died at write %d (-want +got):\n%s", dies, diff)
		}
	}
}
