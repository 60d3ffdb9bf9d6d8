// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// many is governed, with more visits at once than evictions are sent at once.
const many = governed + "  maxUnavailable: 20\n"

// A pass waits for no eviction, and none is sent twice because it takes long. Once it is
// refused another node has its turn.
func TestPassDoesNotWaitForEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, governed, 2)
		report := w.pass(t)
		w.wantSent(t, "pod-00")
		if len(report.Attempts) > 0 || report.Next.Sub(w.now()) > lookAgain {
			t.Errorf("%d answers and the next look at %s; want none, and one in %s", len(report.Attempts), report.Next, lookAgain)
		}
		<-time.After(lookAgain)
		w.pass(t)
		w.wantSent(t, "pod-00")
		w.answers <- rollout.Refused
		synctest.Wait()
		report = w.pass(t)
		w.wantSent(t, "pod-00", "pod-01")
		if l := w.stored.Ledger; len(report.Attempts) != 1 || len(l.Refusals) != 1 || len(l.Visits) != 1 || l.Visits[0].Node != "n01" {
			t.Errorf("%d answers, refusals %+v, visits %+v; want one of each, and n01 visited", len(report.Attempts), l.Refusals, l.Visits)
		}
	})
}

// What was answered while a pass was at work is not sent again by that pass, which did
// not know of it: then a refusal would leave another one on its way.
func TestEvictionThatIsAnsweredDuringAPassIsNotRepeatedByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, governed, 1)
		w.pass(t)
		w.saving = func() {
			w.answers <- rollout.Refused
			synctest.Wait()
		}
		w.pods[0].ResourceVersion = "2" // so that there is something to save
		w.reconciler.state.Ledger.Leaks = []rollout.Leak{{Node: "n09"}}
		w.pass(t)
		w.wantSent(t, "pod-00")
		if l := w.stored.Ledger; len(l.Refusals) != 1 || len(l.Visits) != 0 {
			t.Errorf("refusals %+v, visits %+v; want one refusal, and no visit", l.Refusals, l.Visits)
		}
	})
}

// What waits for its turn gives way to what the next pass decides.
func TestEvictionThatWaitsForItsTurnGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+2)
		w.pass(t)
		w.wantSent(t, w.podNames(evictionsInFlight)...)
		w.nodes[evictionsInFlight].Hold = "a disk is replaced"
		w.pass(t)
		w.answers <- rollout.Sent
		synctest.Wait()
		w.wantSent(t, append(w.podNames(evictionsInFlight), fmt.Sprintf("pod-%02d", evictionsInFlight+1))...)
	})
}

// None is sent when the window has shut while it waited, and one that is sent then is
// given up.
func TestNoEvictionOutlastsItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+1)
		w.pass(t)
		<-time.After(time.Hour)
		synctest.Wait()
		w.wantSent(t, w.podNames(evictionsInFlight)...)
		report := w.pass(t)
		w.reconciler.Wait()
		for _, a := range report.Attempts {
			if a.Result != rollout.Errored || !(errors.Is(a.Err, errTooLate) || strings.Contains(a.Err.Error(), errWindowShut.Error())) {
				t.Errorf("got %+v, want it given up: the window has shut", a)
			}
		}
		if len(report.Attempts) != evictionsInFlight+1 {
			t.Errorf("%d answers, want %d", len(report.Attempts), evictionsInFlight+1)
		}
	})
}

// Nothing is under way after Wait, though nobody has answered.
func TestEvictionsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+1)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := w.reconciler.Pass(ctx, Source{Fleet: w.fleet}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		w.reconciler.Wait()
		w.wantSent(t, w.podNames(evictionsInFlight)...)
	})
}

// waiting is a world with an outdated pod on each of its nodes, whose evictions take
// until they are answered.
type waiting struct {
	*world
	reconciler *Reconciler
	fleet      *Fleet
	nodes      []health.Node
	daemonSets []health.DaemonSet
	pods       []*health.Pod
	answers    chan rollout.AttemptResult
	saving     func() // is called once
	start      time.Time

	mu   sync.Mutex
	sent []string
}

func newWaiting(t *testing.T, documents string, nodes int) *waiting {
	obs := observe(t, documents)
	w := &waiting{world: &world{objects: map[string]string{"cni": ""}}, fleet: obs.Fleet, daemonSets: obs.DaemonSets, answers: make(chan rollout.AttemptResult), start: time.Now()}
	for i := range nodes {
		node, pod := obs.Nodes[0], *obs.Pods[0]
		node.Name = fmt.Sprintf("n%02d", i)
		pod.Name.Name, pod.UID, pod.Node, pod.Hash = fmt.Sprintf("pod-%02d", i), types.UID(node.Name), node.Name, "older"
		w.nodes, w.pods = append(w.nodes, node), append(w.pods, &pod)
	}
	w.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	w.reconciler = NewReconciler(Options{Instance: us, Cluster: w, Store: w, Now: w.now})
	return w
}

// now is a moment in which the window is open, and then what goes by.
func (w *waiting) now() time.Time { return open.Add(time.Since(w.start)) }

func (w *waiting) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) {
	return w.nodes, w.daemonSets, w.pods
}

func (w *waiting) Save(ctx context.Context, s State) error {
	if saving := w.saving; saving != nil {
		w.saving = nil
		saving()
	}
	return w.world.Save(ctx, s)
}

func (w *waiting) Evict(ctx context.Context, d rollout.Decision) rollout.Attempt {
	a := rollout.Attempt{Decision: d, Result: rollout.Errored}
	if ctx.Err() == nil {
		w.mu.Lock()
		w.sent = append(w.sent, d.Pod.Name.Name)
		w.mu.Unlock()
		select {
		case a.Result = <-w.answers:
			return a
		case <-ctx.Done():
		}
	}
	a.Err = context.Cause(ctx)
	return a
}

func (w *waiting) pass(t *testing.T) Report {
	t.Helper()
	report, err := w.reconciler.Pass(t.Context(), Source{Fleet: w.fleet})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return report
}

func (w *waiting) podNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("pod-%02d", i)
	}
	return names
}

func (w *waiting) wantSent(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := slices.Sorted(slices.Values(w.sent)); !slices.Equal(got, want) {
		t.Errorf("evictions sent: %v, want %v", got, want)
	}
}
