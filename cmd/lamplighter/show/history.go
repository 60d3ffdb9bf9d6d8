// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// History is what became of the revisions of a DaemonSet, newest first. The
// visits are those that are still on record.
type History struct {
	DaemonSet string            `json:"daemonSet"`
	Policy    string            `json:"policy,omitempty"`
	Revisions []RevisionHistory `json:"revisions"`
}

// RevisionHistory is one revision.
type RevisionHistory struct {
	Revision int64  `json:"revision,omitempty"` // its number; 0 when the API server no longer keeps it
	Hash     string `json:"hash"`
	Current  bool   `json:"current"`
	Created  string `json:"created,omitempty"`
	// Commit is the one that the last visit to it began with. Of a commit that
	// is no longer in force only the hash is known.
	Commit reconcile.Commit `json:"commit,omitzero"`

	Nodes   int    `json:"nodes"` // that were visited, or are
	Open    int    `json:"open"`  // visits that have not ended
	Failed  int    `json:"failed"`
	Outcome string `json:"outcome,omitempty"` // the worst that became of it
	First   string `json:"first,omitempty"`   // when the first eviction was
	Last    string `json:"last,omitempty"`    // when the last pod had settled
	Median  string `json:"median,omitempty"`  // from an eviction to a settled pod
	Longest string `json:"longest,omitempty"`
}

// Revision is one that the API server keeps.
type Revision struct {
	Number  int64
	Hash    string
	Created time.Time
}

// The outcomes of a revision, from the worst to the best.
const (
	outcomeHalted     = "halted"
	outcomeFailed     = "failed"
	outcomeOpen       = "under way"  // it has not come to all nodes yet
	outcomeReverted   = "reverted"   // the one before came back in its place
	outcomeSuperseded = "superseded" // the next one came before it had come to all nodes
	outcomeRecovered  = "recovered"
	outcomeSettled    = "settled"
)

// NewHistory makes the history of a DaemonSet from what is on record. Current
// is the revision in force, and halted says that its policy is.
func NewHistory(daemonSet, current string, halted bool, state reconcile.State, revisions []Revision) History {
	h := History{DaemonSet: daemonSet, Policy: state.Ledger.Governed[daemonSet].Policy, Revisions: []RevisionHistory{}}
	tales := map[string]*tale{}
	of := func(hash string) *tale {
		if tales[hash] == nil {
			tales[hash] = &tale{from: map[string]bool{}, nodes: map[string]bool{}, failed: map[string]bool{}}
		}
		return tales[hash]
	}
	for _, r := range revisions {
		of(r.Hash).revision = r
	}
	for _, v := range slices.Concat(state.Ledger.Finished, state.Ledger.Visits) {
		for _, s := range v.Steps {
			if s.DaemonSet == daemonSet {
				of(s.To).add(v, s)
			}
		}
	}
	for _, f := range state.Ledger.Failures {
		if f.DaemonSet == daemonSet {
			of(f.Revision).failed[f.Node] = true
		}
	}
	settled := state.Ledger.Governed[daemonSet].Settled
	for hash, t := range tales {
		r := t.tell(hash)
		switch well := r.Outcome == outcomeSettled || r.Outcome == outcomeRecovered; {
		case hash != current && r.Failed == 0 && takenBack(tales, t.revision):
			r.Outcome = outcomeReverted
		case well && hash == current && settled != current:
			r.Outcome = outcomeOpen
		case well && hash != current && passedOver(tales, t.revision):
			r.Outcome = outcomeSuperseded
		}
		if r.Current = hash == current; r.Current && halted && r.Failed > 0 {
			r.Outcome = outcomeHalted
		}
		if c := state.Record.Commit; c.Hash != "" && c.Hash == r.Commit.Hash {
			r.Commit = c
		}
		h.Revisions = append(h.Revisions, r)
	}
	slices.SortFunc(h.Revisions, func(a, b RevisionHistory) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(b.First, a.First), cmp.Compare(a.Hash, b.Hash))
	})
	return h
}

// takenBack says that an older revision was in force again after this one. The
// DaemonSet controller gives it the next number then.
func takenBack(tales map[string]*tale, r Revision) bool {
	var next Revision
	for _, t := range tales {
		if n := t.revision; r.Number > 0 && n.Number > r.Number && (next.Number == 0 || n.Number < next.Number) {
			next = n
		}
	}
	return next.Number > 0 && next.Created.Before(r.Created)
}

// passedOver says that a node went from an older revision to a newer one: this one
// never came to it.
func passedOver(tales map[string]*tale, r Revision) bool {
	for _, later := range tales {
		if !later.revision.newerThan(r) {
			continue
		}
		for from := range later.from {
			if before := tales[from]; before != nil && r.newerThan(before.revision) {
				return true
			}
		}
	}
	return false
}

// newerThan says that a revision was made later than another one. Of those that the
// API server no longer keeps it is not known.
func (r Revision) newerThan(other Revision) bool {
	if r.Number == 0 || other.Number == 0 {
		return false
	}
	return cmp.Or(r.Created.Compare(other.Created), cmp.Compare(r.Number, other.Number)) > 0
}

// tale is what is known of one revision.
type tale struct {
	from        map[string]bool // revisions from which nodes came to it
	revision    Revision
	commit      string
	began       time.Time // of the visit that the commit is from
	first, last time.Time
	nodes       map[string]bool
	failed      map[string]bool // nodes on record as failed
	recovered   map[string]bool
	open        int
	settled     int
	took        []time.Duration
}

func (t *tale) add(v rollout.Visit, s rollout.Step) {
	t.nodes[v.Node], t.from[s.From] = true, true
	if v.Commit != "" && !v.Started.Before(t.began) {
		t.commit, t.began = v.Commit, v.Started
	}
	if t.first.IsZero() || s.Evicted.Before(t.first) {
		t.first = s.Evicted
	}
	if s.Settled.IsZero() {
		if v.Finished.IsZero() {
			t.open++
		}
		return
	}
	t.settled++
	if s.Settled.After(t.last) {
		t.last = s.Settled
	}
	if s.Settled.After(s.Evicted) {
		t.took = append(t.took, s.Settled.Sub(s.Evicted))
	}
	if s.Recovered {
		if t.recovered == nil {
			t.recovered = map[string]bool{}
		}
		t.recovered[v.Node] = true
	}
}

func (t *tale) tell(hash string) RevisionHistory {
	r := RevisionHistory{Hash: hash, Revision: t.revision.Number, Commit: reconcile.Commit{Hash: t.commit}, Nodes: len(t.nodes), Open: t.open}
	for _, at := range []struct {
		to *string
		at time.Time
	}{{&r.Created, t.revision.Created}, {&r.First, t.first}, {&r.Last, t.last}} {
		if !at.at.IsZero() {
			*at.to = Time(at.at.UTC())
		}
	}
	for node := range t.failed {
		r.Failed += one(!t.recovered[node])
	}
	if len(t.took) > 0 {
		slices.Sort(t.took)
		r.Median, r.Longest = length(t.took[(len(t.took)-1)/2]), length(t.took[len(t.took)-1])
	}
	switch {
	case r.Failed > 0:
		r.Outcome = outcomeFailed
	case t.open > 0:
		r.Outcome = outcomeOpen
	case len(t.recovered) > 0:
		r.Outcome = outcomeRecovered
	case t.settled > 0:
		r.Outcome = outcomeSettled
	}
	return r
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func length(d time.Duration) string { return d.Round(time.Second).String() }

// WriteHistory writes a history as a table.
func WriteHistory(w io.Writer, h History) error {
	if len(h.Revisions) == 0 {
		_, err := fmt.Fprintf(w, "daemonset %s: nothing is on record\n", h.DaemonSet)
		return err
	}
	rows := make([][]any, 0, len(h.Revisions))
	for _, r := range h.Revisions {
		number := none
		if r.Revision > 0 {
			number = fmt.Sprint(r.Revision)
		}
		if r.Current {
			number += " *"
		}
		rows = append(rows, []any{
			number, r.Hash, dash(r.Commit.Hash[:min(len(r.Commit.Hash), 7)]), dash(r.Commit.Author), Time(r.Commit.When),
			r.Nodes, r.Failed, dash(r.Outcome), dash(r.First), dash(r.Last), dash(r.Median), dash(r.Longest),
		})
	}
	header := []any{"REVISION", "HASH", "COMMIT", "AUTHOR", "WHEN", "NODES", "FAILED", "OUTCOME", "FIRST", "LAST", "MEDIAN", "LONGEST"}
	return table(w, header, rows)
}
