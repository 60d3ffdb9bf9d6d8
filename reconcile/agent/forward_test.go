// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/render/gitsource"
)

// history is a source whose newest commit is the last of a line.
type history struct {
	commits []string
	away    error
}

func (h *history) Fetch(context.Context) (gitsource.Commit, error) {
	tree := fstest.MapFS{"kustomization.yaml": {Data: []byte("resources: [a.yaml]\n")}, "a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\n")}}
	return gitsource.Commit{Hash: h.commits[len(h.commits)-1], Tree: tree}, nil
}

func (h *history) descends(_ context.Context, from string) (bool, error) {
	for _, c := range h.commits {
		if c == from {
			return true, h.away
		}
	}
	return false, h.away
}

func hash(digit string) string { return strings.Repeat(digit, 40) }

func TestOnlyForward(t *testing.T) {
	h := &history{commits: []string{hash("1"), hash("2")}}
	recorded := reconcile.State{Record: reconcile.Record{Commit: reconcile.Commit{Hash: hash("1")}}}
	var (
		unreadable error
		keptOut    string
	)
	p := &poller{
		source: h, path: ".", now: time.Now, log: slog.New(slog.DiscardHandler), metrics: NewMetrics(prometheus.NewRegistry()),
		forward: forward{h.descends, func(context.Context) (reconcile.State, error) { return recorded, unreadable }, func() string { return keptOut }},
	}
	want := func(inForce, problem string) {
		t.Helper()
		u, _ := p.poll(t.Context())
		got := ""
		if u.fleet != nil {
			got = u.fleet.Commit.Hash
		}
		if got != inForce || (u.err == nil) != (problem == "") || u.err != nil && !strings.Contains(u.err.Error(), problem) {
			t.Errorf("in force %q, err %v; want %q, %q", got, u.err, inForce, problem)
		}
	}

	// What was in force before the agent started counts.
	h.commits = []string{hash("0")}
	want("", "commit 0000000: was not made on top of 1111111, which is in force: push a commit that is, or start the agent without --ff-only")
	unreadable = errors.New("forbidden")
	p.seen = ""
	want("", "what is in force: forbidden")
	unreadable = nil
	h.commits = []string{hash("1"), hash("2")}
	want(hash("2"), "")

	// Then what is in force now.
	h.commits = []string{hash("1")}
	want(hash("2"), "was not made on top of 2222222")
	want(hash("2"), "was not made on top of 2222222")
	h.commits, h.away = []string{hash("1"), hash("2"), hash("3")}, errors.New("connection refused")
	want(hash("2"), "commit 3333333: connection refused")
	h.away = nil
	want(hash("3"), "")
	recorded.Record.Commit.Hash = hash("3")

	// A commit that the cluster did not take never was in force: what replaces it need
	// not be on top of it, but of the one that is.
	h.commits = append(h.commits, hash("4"))
	want(hash("4"), "")
	h.commits[3] = hash("5")
	want(hash("4"), "was not made on top of 4444444") // as far as is known
	keptOut = hash("4")
	want(hash("5"), "")
	keptOut = hash("5")
	h.commits = []string{hash("1"), hash("6")}
	want(hash("5"), "was not made on top of 3333333")
}

// A history that the remote does not give, because it is too long or the server
// wants to be left alone, is not asked for at each interval.
func TestHistoryThatIsNotGivenIsAskedForLessOften(t *testing.T) {
	h := &history{commits: []string{hash("1"), hash("2")}}
	recorded := reconcile.State{Record: reconcile.Record{Commit: reconcile.Commit{Hash: hash("1")}}}
	var (
		unreadable error
		keptOut    string
	)
	p := &poller{
		source: h, path: ".", now: time.Now, log: slog.New(slog.DiscardHandler), metrics: NewMetrics(prometheus.NewRegistry()),
		forward: forward{h.descends, func(context.Context) (reconcile.State, error) { return recorded, unreadable }, func() string { return keptOut }},
	}
	failures := func(want int) {
		t.Helper()
		p.poll(t.Context())
		if p.failures != want || (p.failure == nil) != (want == 0) {
			t.Errorf("%d failures, the last is %v; want %d", p.failures, p.failure, want)
		}
	}
	h.away = tooMany(t, "7")
	failures(1)
	failures(2)
	if rest := askedRest(p.failure); rest != 7*time.Second {
		t.Errorf("the server rests for %s", rest)
	}
	h.away, unreadable = nil, errors.New("forbidden") // which is not the remote's fault
	failures(0)
	unreadable, h.commits = nil, []string{hash("0")}
	failures(0) // backward, and the remote has said so
}

func TestFirstCommitFollowsNothing(t *testing.T) {
	for name, inForce := range map[string]string{"nothing": "", "a working tree": "(working tree)"} {
		t.Run(name, func(t *testing.T) {
			f := forward{
				func(context.Context, string) (bool, error) { return false, nil },
				func(context.Context) (reconcile.State, error) {
					return reconcile.State{Record: reconcile.Record{Commit: reconcile.Commit{Hash: inForce}}}, nil
				},
				func() string { return "" },
			}
			if err := f.check(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}
