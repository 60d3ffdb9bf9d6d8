// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
)

// soak is longer than an agent needs to start anew.
const soak = 10 * time.Second

// The canary goes first and soaks, though the agent starts anew meanwhile; then
// one zone is finished after the other.
func TestCanarySoaksThenZoneAfterZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start(t)
	waves := fmt.Sprintf(`  topology: {key: topology.kubernetes.io/zone}
  waves:
  - {name: canary, nodeSelector: {matchLabels: {canary: "true"}}, maxUnavailable: 1, soak: %s}
  - {name: rest}
`, soak)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{maxUnavailable: "2", more: waves}.yaml(w),
	}))
	w.settled(t, "1")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		if err := w.deleted(t, 1); err != nil {
			return err
		}
		for _, wave := range state.Ledger.Waves {
			if wave.Wave == "canary" && !wave.Soaked {
				return nil
			}
		}
		return fmt.Errorf("the canary does not soak: %+v", state.Ledger.Waves)
	})
	first.stop(t)
	w.start(t)
	w.settled(t, "2")

	w.onceEach(t)
	w.withinBudget(t, 2)
	given := w.orders(t)
	if wait := given[1].at.Sub(given[0].at); given[0].node != "node-000" || wait < soak {
		t.Errorf("the first orders are %v, want node-000, and the next not before %s", given[:2], soak)
	}
	zones := w.zones(t)
	var order []string
	for _, o := range given[1:] {
		order = append(order, zones[o.node])
	}
	if got := slices.Compact(slices.Clone(order)); len(got) != 3 {
		t.Errorf("zones were visited in the order %v, want one after another", order)
	}
}

// zones is the zone of every node.
func (w *world) zones(t *testing.T) map[string]string {
	t.Helper()
	list, err := w.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]string{}
	for _, n := range list.Items {
		zones[n.Name] = n.Labels["topology.kubernetes.io/zone"]
	}
	return zones
}
