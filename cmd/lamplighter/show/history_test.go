// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

func TestHistory(t *testing.T) {
	at := time.Date(2027, 1, 4, 22, 0, 0, 0, time.UTC)
	visit := func(node, commit string, start time.Duration, steps ...rollout.Step) rollout.Visit {
		return rollout.Visit{Policy: "network", Node: node, Commit: commit, Started: at.Add(start), Steps: steps, Finished: at.Add(start + time.Hour)}
	}
	step := func(to string, evicted, took time.Duration) rollout.Step {
		s := rollout.Step{DaemonSet: "agents/cni", To: to, Evicted: at.Add(evicted)}
		if took > 0 {
			s.Settled = s.Evicted.Add(took)
		}
		return s
	}
	recovered := step("bbb", time.Hour, 9*time.Minute)
	recovered.Recovered = true
	open := visit("a", "c2c2c2c2", 2*time.Hour, step("ccc", 2*time.Hour, 0))
	open.Finished = time.Time{}
	state := reconcile.State{
		Record: reconcile.Record{Commit: reconcile.Commit{Hash: "c2c2c2c2", Author: "Ada", Subject: "third", When: at.Add(-time.Hour)}},
		Ledger: rollout.Ledger{
			Governed: map[string]rollout.Governance{"agents/cni": {Policy: "network"}},
			Finished: []rollout.Visit{
				visit("a", "c0c0c0c0", 0, step("aaa", 0, time.Minute)),
				visit("b", "c0c0c0c0", 0, step("aaa", time.Minute, 3*time.Minute), rollout.Step{DaemonSet: "agents/csi", To: "zzz", Evicted: at, Settled: at.Add(5 * time.Hour)}),
				visit("c", "c0c0c0c1", time.Minute, step("aaa", 2*time.Minute, 2*time.Minute)),
				visit("a", "c1c1c1c1", time.Hour, recovered),
			},
			Visits: []rollout.Visit{open},
			Failures: []rollout.Failure{
				{Policy: "network", Node: "a", DaemonSet: "agents/cni", Revision: "bbb"},
				{Policy: "network", Node: "x", DaemonSet: "agents/csi", Revision: "ccc"},
			},
		},
	}
	revisions := []show.Revision{{Number: 3, Hash: "ccc", Created: at.Add(2 * time.Hour)}, {Number: 2, Hash: "bbb", Created: at.Add(time.Hour)}}
	got := show.NewHistory("agents/cni", "ccc", false, state, revisions)
	want := show.History{DaemonSet: "agents/cni", Policy: "network", Revisions: []show.RevisionHistory{
		{Revision: 3, Hash: "ccc", Current: true, Created: "2027-01-05T00:00:00Z", Commit: state.Record.Commit, Nodes: 1, Open: 1, Outcome: "under way", First: "2027-01-05T00:00:00Z"},
		{Revision: 2, Hash: "bbb", Created: "2027-01-04T23:00:00Z", Commit: reconcile.Commit{Hash: "c1c1c1c1"}, Nodes: 1, Outcome: "recovered",
			First: "2027-01-04T23:00:00Z", Last: "2027-01-04T23:09:00Z", Median: "9m0s", Longest: "9m0s"},
		{Hash: "aaa", Commit: reconcile.Commit{Hash: "c0c0c0c1"}, Nodes: 3, Outcome: "settled", // the API server keeps it no more
			First: "2027-01-04T22:00:00Z", Last: "2027-01-04T22:04:00Z", Median: "2m0s", Longest: "3m0s"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	state.Ledger.Failures = append(state.Ledger.Failures, rollout.Failure{Policy: "network", Node: "a", DaemonSet: "agents/cni", Revision: "ccc"})
	for halted, want := range map[bool]string{false: "failed", true: "halted"} {
		r := show.NewHistory("agents/cni", "ccc", halted, state, revisions).Revisions[0]
		if r.Outcome != want || r.Failed != 1 {
			t.Errorf("halted %t: got %s with %d failed, want %s with 1", halted, r.Outcome, r.Failed, want)
		}
	}
}

// Of six nodes three have the revision in force, and two never had the one before.
func TestRevisionThatHasNotComeToAllNodesIsNotSettled(t *testing.T) {
	at := time.Date(2027, 1, 4, 22, 0, 0, 0, time.UTC)
	var finished []rollout.Visit
	for node, path := range map[string][]string{"a": {"aaa", "bbb", "ccc"}, "b": {"aaa", "bbb", "ccc"}, "c": {"aaa", "ccc"}} {
		for i := range path[1:] {
			finished = append(finished, rollout.Visit{Policy: "network", Node: node, Started: at, Finished: at, Steps: []rollout.Step{
				{DaemonSet: "agents/cni", From: path[i], To: path[i+1], Evicted: at, Settled: at.Add(time.Minute)},
			}})
		}
	}
	revisions := []show.Revision{{Number: 3, Hash: "ccc"}, {Number: 2, Hash: "bbb"}, {Number: 1, Hash: "aaa"}}
	for settled, want := range map[string][]string{
		"aaa": {"under way", "superseded", ""},
		"ccc": {"settled", "superseded", ""},
		"":    {"under way", "superseded", ""}, // on no revision yet
	} {
		state := reconcile.State{Ledger: rollout.Ledger{Finished: finished, Governed: map[string]rollout.Governance{"agents/cni": {Policy: "network", Settled: settled}}}}
		var got []string
		for _, r := range show.NewHistory("agents/cni", "ccc", false, state, revisions).Revisions {
			got = append(got, r.Outcome)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("all had settled on %q (-want +got):\n%s", settled, diff)
		}
	}
}

// The DaemonSet controller uses a revision again when its template comes back, and
// gives it the next number: it is older than the one before it.
func TestRevisionThatIsTakenBackIsReverted(t *testing.T) {
	at := time.Date(2027, 1, 4, 22, 0, 0, 0, time.UTC)
	came := func(node, from, to string, start time.Duration, took time.Duration) rollout.Visit {
		s := rollout.Step{DaemonSet: "agents/cni", From: from, To: to, Evicted: at.Add(start)}
		if took > 0 {
			s.Settled = s.Evicted.Add(took)
		}
		return rollout.Visit{Policy: "network", Node: node, Started: at.Add(start), Finished: at.Add(start + time.Hour), Steps: []rollout.Step{s}}
	}
	revisions := func(hashes ...string) []show.Revision { // in the order in which they were last in force
		created := map[string]time.Time{"aaa": at, "bbb": at.Add(time.Hour), "ccc": at.Add(2 * time.Hour)}
		var out []show.Revision
		for i, hash := range hashes {
			out = append(out, show.Revision{Number: int64(i + 2), Hash: hash, Created: created[hash]})
		}
		return out
	}
	for name, test := range map[string]struct {
		visits    []rollout.Visit
		revisions []show.Revision
		want      map[string]string
	}{
		"after it had come to some nodes": {
			[]rollout.Visit{came("a", "aaa", "bbb", time.Hour, time.Minute), came("a", "bbb", "aaa", 2*time.Hour, time.Minute)},
			revisions("bbb", "aaa"), map[string]string{"bbb": "reverted", "aaa": "settled"},
		},
		"after its first pod had failed, whose visit went on with the revert": {
			[]rollout.Visit{came("a", "bbb", "aaa", 2*time.Hour, time.Minute)},
			revisions("bbb", "aaa"), map[string]string{"bbb": "reverted", "aaa": "settled"},
		},
		"before it had come to any": {nil, revisions("bbb", "aaa"), map[string]string{"bbb": "reverted", "aaa": ""}},
		"and the next one has come since": {
			[]rollout.Visit{came("a", "aaa", "bbb", time.Hour, time.Minute), came("a", "bbb", "aaa", 2*time.Hour, time.Minute), came("a", "aaa", "ccc", 3*time.Hour, time.Minute)},
			revisions("bbb", "aaa", "ccc"), map[string]string{"bbb": "reverted", "aaa": "settled", "ccc": "settled"},
		},
		"the one before it was superseded": {
			[]rollout.Visit{came("a", "aaa", "bbb", time.Hour, time.Minute), came("a", "bbb", "ccc", 2*time.Hour, time.Minute), came("b", "aaa", "ccc", 2*time.Hour, time.Minute), came("a", "ccc", "aaa", 3*time.Hour, time.Minute)},
			revisions("bbb", "ccc", "aaa"), map[string]string{"bbb": "superseded", "ccc": "reverted", "aaa": "settled"},
		},
	} {
		current := test.revisions[len(test.revisions)-1].Hash
		state := reconcile.State{Ledger: rollout.Ledger{Finished: test.visits, Governed: map[string]rollout.Governance{"agents/cni": {Policy: "network", Settled: current}}}}
		got := map[string]string{}
		for _, r := range show.NewHistory("agents/cni", current, false, state, test.revisions).Revisions {
			got[r.Hash] = r.Outcome
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHistoryText(t *testing.T) {
	var b strings.Builder
	if err := show.WriteHistory(&b, show.History{DaemonSet: "agents/cni"}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "daemonset agents/cni: nothing is on record\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
