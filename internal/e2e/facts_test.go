// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// order is a request to delete a pod, as the API server has taken it down.
type order struct {
	node      string
	at        time.Time // to the second
	daemonSet string
}

// orders are all that were given so far. A pod's deletion timestamp is the
// instant of the request and the grace period that it granted, so that it does
// not matter when we hear of it.
func (w *world) orders(t testing.TB) []order {
	t.Helper()
	var given []order
	known := map[types.UID]bool{}
	for _, e := range w.pods.Events(t) {
		p := e.Pod
		if known[p.UID] || p.DeletionTimestamp == nil && e.Type != watch.Deleted {
			continue
		}
		known[p.UID] = true
		if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil {
			t.Fatalf("pod %s went away without being asked to", p.Name)
		}
		grace := time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		given = append(given, order{p.Spec.NodeName, p.DeletionTimestamp.Add(-grace), p.Labels["app"]})
	}
	return given
}

// outside are the orders that were given in none of the spans.
func outside(given []order, spans ...span) []order {
	return slices.DeleteFunc(slices.Clone(given), func(o order) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.has(o.at) })
	})
}

func (o order) String() string { return o.node + " at " + o.at.Format(time.TimeOnly) }

// countByNode is how often each node's pod was deleted.
func (w *world) countByNode(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for node, ds := range w.pods.DeletionsByNode(t) {
		counts[node] = len(ds)
	}
	return counts
}

// onceEach fails the test unless each node's pod was deleted exactly once.
func (w *world) onceEach(t testing.TB) {
	t.Helper()
	w.onceOn(t, nodes, "agent")
}

// onceOn does so for some DaemonSets, on so many nodes.
func (w *world) onceOn(t testing.TB, size int, daemonSets ...string) {
	t.Helper()
	counts := map[string]map[string]int{}
	for _, name := range daemonSets {
		counts[name] = map[string]int{}
	}
	for _, o := range w.orders(t) {
		if counts[o.daemonSet] != nil {
			counts[o.daemonSet][o.node]++
		}
	}
	for _, name := range daemonSets {
		if got := len(counts[name]); got != size {
			t.Errorf("pods of %s were deleted on %d nodes, not %d", name, got, size)
		}
		for _, node := range slices.Sorted(maps.Keys(counts[name])) {
			if n := counts[name][node]; n != 1 {
				t.Errorf("%s: its pod of %s was deleted %d times, not once", node, name, n)
			}
		}
	}
}

// withinBudget fails the test if more nodes were without a Ready pod at any
// instant: of one of the DaemonSets, or of agent if none is named.
func (w *world) withinBudget(t testing.TB, most int, daemonSets ...string) {
	t.Helper()
	if len(daemonSets) == 0 {
		daemonSets = []string{"agent"}
	}
	if worst := w.pods.WorstOutage(t, daemonSets...); len(worst.Nodes) > most {
		t.Errorf("%d nodes were out of service at %s, at most %d may be: %s",
			len(worst.Nodes), worst.At.Format(time.TimeOnly), most, strings.Join(worst.Nodes, " "))
	}
}

// deleted waits for nothing: it says whether n pods have been deleted so far.
func (w *world) deleted(t testing.TB, n int) error {
	if got := len(w.pods.Deletions(t, time.Time{}, time.Now().Add(time.Hour))); got < n {
		return fmt.Errorf("%d pods were deleted so far, not %d", got, n)
	}
	return nil
}
