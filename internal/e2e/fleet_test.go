// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/rollout"
)

const (
	fleetSize     = 100
	fleetCanaries = 3
	fleetSoak     = 5 * time.Second
	fleetBudget   = 10
)

// A hundred nodes in three zones: the canaries, their soak, and then one zone
// after another, each finished before the next is begun.
func TestHundredNodesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	place := w.crowd(t, fleetSize, fleetCanaries)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "slow-500ms") + place,
			"rules.yaml": rules{maxUnavailable: "10%", fields: fmt.Sprintf(`  topology: {key: topology.kubernetes.io/zone, maxDomains: 1}
  waves:
  - {name: canary, nodeSelector: {matchLabels: {canary: "true"}}, soak: %s}
  - {name: rest}
`, fleetSoak)}.yaml(w),
		})
	}
	w.start(t)
	w.commit(t, "version 1", files("1"))
	w.runsOn(t, fleetSize, "1", "agent")
	testkit.Eventually(t, patience, w.idle)
	w.commit(t, "version 2", files("2"))
	w.runsOn(t, fleetSize, "2", "agent")
	testkit.Eventually(t, patience, w.idle)

	w.onceOn(t, fleetSize, "agent")
	w.withinBudget(t, fleetBudget)
	visits := w.finished(t)
	if len(visits) != fleetSize {
		t.Fatalf("%d visits are on record, want %d", len(visits), fleetSize)
	}
	nodes, zones := w.orderedNodes(t), w.zones(t)
	canaries := visits[:fleetCanaries]
	for i := range fleetCanaries {
		if name := fmt.Sprintf("%s-%03d", w.instance.Name, i); !slices.Contains(nodes[:fleetCanaries], name) {
			t.Errorf("the first were %v, want the canary %s among them", nodes[:fleetCanaries], name)
		}
	}
	ready := w.readySince(t, "agent", "2") // an instant from which a soak counts
	for _, v := range canaries {
		if soaked := visits[fleetCanaries].Started.Sub(ready[v.Node]); soaked < fleetSoak {
			t.Errorf("the next visit began %s after %s was ready, want %s", soaked, v.Node, fleetSoak)
		}
	}
	given := w.orders(t)
	if wait := given[fleetCanaries].at.Sub(given[fleetCanaries-1].at); wait < fleetSoak {
		t.Errorf("the next pod was deleted %s after that of a canary, want %s", wait, fleetSoak)
	}
	eachAtATime(t, canaries, zones)
	eachAtATime(t, visits[fleetCanaries:], zones)
}

// orderedNodes are the nodes whose pods were deleted, as it came.
func (w *world) orderedNodes(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, o := range w.orders(t) {
		names = append(names, o.node)
	}
	return names
}

func lastEnd(visits []rollout.Visit) time.Time {
	return slices.MaxFunc(visits, func(a, b rollout.Visit) int { return a.Finished.Compare(b.Finished) }).Finished
}

// eachAtATime fails the test unless the visits of a zone were over before any
// began in another, and no zone had two turns.
func eachAtATime(t *testing.T, visits []rollout.Visit, zoneByNode map[string]string) {
	t.Helper()
	done := map[string]bool{}
	for len(visits) > 0 {
		zone := zoneByNode[visits[0].Node]
		n := slices.IndexFunc(visits, func(v rollout.Visit) bool { return zoneByNode[v.Node] != zone })
		if n < 0 {
			n = len(visits)
		}
		if done[zone] {
			t.Errorf("%s had a second turn with %s", zone, visits[0].Node)
		}
		done[zone] = true
		if n < len(visits) && visits[n].Started.Before(lastEnd(visits[:n])) {
			t.Errorf("%s was begun at %s, before %s was done at %s", visits[n].Node, visits[n].Started, zone, lastEnd(visits[:n]))
		}
		visits = visits[n:]
	}
	if len(done) != crowdZones {
		t.Errorf("%d zones were visited, want %d", len(done), crowdZones)
	}
}
