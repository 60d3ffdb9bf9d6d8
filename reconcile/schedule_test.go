// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"
	"time"

	"lamplighter.dev/inventory"
)

// A changed schedule counts from the pass of its commit on, whether it opens or shuts.
func TestChangedScheduleCountsInThePassOfItsCommit(t *testing.T) {
	earlier := strings.ReplaceAll(governed, "start: 2026-12-01T10:00:00Z", "start: 2026-12-01T08:00:00Z")
	for _, test := range []struct {
		name, before, after string
		applied             bool
	}{
		{"opened", governed, earlier, true},
		{"shut", earlier, governed, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &slow{world: &world{objects: map[string]string{"cni": "old"}}, now: shut}
			s.stored.Inventory = inventory.NewSet(daemonSetID(agents), configMap("a"), configMap("b"))
			s.stored.Ledger = s.stored.Ledger.Govern(fleetOf(t, test.before).Policies)
			r := NewReconciler(Options{Instance: us, Cluster: s, Store: s, Now: func() time.Time { return s.now }})
			for _, policies := range []string{test.before, test.after} {
				s.objects["cni"] = "old"
				if _, err := r.Pass(t.Context(), Source{Fleet: fleetOf(t, policies)}); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.objects["cni"] != "old"; got != test.applied {
				t.Errorf("the template was applied: %t, want %t", got, test.applied)
			}
		})
	}
}
