// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// A webhook that fails on some nodes' evictions must not stop the others.
func TestEvictionsThatFailLetOtherNodesGo(t *testing.T) {
	w := newWorld(time.Date(2026, 3, 2, 20, 0, 0, 0, time.UTC), 6, 1)
	w.now = w.now.Add(time.Minute)
	w.step()
	w.change(w.sets[0], behaviour{kind: "good", delay: 20 * time.Second})
	w.setDown(w.nodes["n1"], true)
	w.now = w.now.Add(time.Minute)
	w.step()
	fails := map[string]bool{"n0": true, "n1": true, "n2": true}
	policies := []policy.UpgradePolicy{{
		Name: "p", DaemonSets: []types.NamespacedName{nameOf("ds0")}, MaxUnavailable: intstr.FromInt32(1), MinReadySeconds: 10,
		ReadyTimeout: 10 * time.Minute, TerminationTimeout: 5 * time.Minute, VisitDuration: 5 * time.Minute, Calendar: window.Calendar{Always: true},
	}}
	var ledger Ledger
	pass := func() {
		obs := w.observe(ledger)
		plan := New(obs, policies, w.now)
		checkInvariants(t, obs, policies, w.now, plan)
		checkConstantOf(t, obs, policies, w.now, plan)
		ledger = plan.Ledger
		for _, d := range plan.Decisions {
			if d.Action == Evict && !fails[d.Node] {
				w.evict(d)
			}
		}
		w.now = w.now.Add(5 * time.Second)
		w.step()
	}
	current := func() (n int) {
		for _, p := range w.pods {
			n += one(p.revision == w.sets[0].revision && p.deadline.IsZero())
		}
		return n
	}
	for range 500 {
		pass()
	}
	if got := current(); got != 3 {
		t.Errorf("%d nodes are upgraded, want all 3 whose evictions work; the ledger is %+v", got, ledger)
	}
	clear(fails)
	w.setDown(w.nodes["n1"], false)
	for range 500 {
		pass()
	}
	if got := current(); got != 6 || len(ledger.Visits) > 0 {
		t.Errorf("%d nodes are upgraded once evictions work again, want all 6; open: %+v", got, ledger.Visits)
	}
}
