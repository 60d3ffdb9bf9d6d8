// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

func TestPodsOfStrangersAreNoReasonForAPass(t *testing.T) {
	base := observe(t, governed)
	base.DaemonSets = append(base.DaemonSets,
		health.DaemonSet{Name: types.NamespacedName{Namespace: "kube-system", Name: "proxy"}, UID: "proxy"},
		health.DaemonSet{Name: types.NamespacedName{Namespace: "logs", Name: "shipper"}, UID: "shipper"})
	shipper := inventory.ID{GroupKind: daemonSetKind, Namespace: "logs", Name: "shipper"}
	for _, test := range []struct {
		name   string
		change func(*Report)
		want   []types.UID
	}{
		{"those that nothing names", func(*Report) {}, []types.UID{"", "proxy", "shipper"}},
		{"what no policy governs", func(r *Report) { r.Observation.Policies.Upgrades = nil }, []types.UID{"", "ds", "proxy", "shipper"}},
		{"what is in Git is none", func(r *Report) { r.Observation.Changes = []inventory.Change{{ID: shipper}} }, []types.UID{"", "proxy"}},
		{"what is owned is none", func(r *Report) { r.After.Inventory = inventory.NewSet(shipper) }, []types.UID{"", "proxy"}},
		{"nobody while something may be pruned", func(r *Report) { r.Observation.Orphans = []inventory.Live{{ID: configMap("a")}} }, nil},
	} {
		report := Report{Observation: base}
		test.change(&report)
		if got := report.Strangers(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
