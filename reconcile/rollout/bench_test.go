// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// fleetOf has one pod of every DaemonSet on every node. One node in ten is
// outdated, and each policy governs a few DaemonSets.
func fleetOf(nodes, sets, perPolicy int, outdated func(node int) bool) (Observed, []policy.UpgradePolicy, time.Time) {
	now := time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC)
	night := must(window.Recurring(window.RecurringSpec{Name: "night", TimeZone: "Europe/Berlin", Schedule: "0 22 * * *", Duration: "6h"}))
	obs := Observed{Supposed: true, Ledger: Ledger{Governed: map[string]Governance{}}}
	var policies []policy.UpgradePolicy
	for s := range sets {
		name := nameOf(fmt.Sprintf("agent-%02d", s))
		obs.DaemonSets = append(obs.DaemonSets, health.DaemonSet{
			Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-ds%010d", s)), Revision: "new", RevisionObserved: true, OnDelete: true,
			Template: &corev1.PodSpec{
				NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
				Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		})
		obs.Ledger.Governed[name.String()] = Governance{Proven: "new"}
		if s%perPolicy == 0 {
			policies = append(policies, policy.UpgradePolicy{
				Name: fmt.Sprintf("policy-%02d", s), MaxUnavailable: intstr.FromString("10%"), MinReadySeconds: 30,
				ReadyTimeout: 10 * time.Minute, TerminationTimeout: 5 * time.Minute, VisitDuration: 5 * time.Minute,
				Calendar: window.Calendar{Allows: []window.Window{night}},
			})
		}
		policies[len(policies)-1].DaemonSets = append(policies[len(policies)-1].DaemonSets, name)
	}
	for n := range nodes {
		name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", n>>16, n>>8&255, n&255)
		obs.Nodes = append(obs.Nodes, health.Node{Name: name, Ready: true, Labels: map[string]string{"kubernetes.io/os": "linux", "pool": "a"}})
		for s := range sets {
			hash := "new"
			if outdated(n) {
				hash = "old"
			}
			created := now.Add(-time.Duration(n) * time.Minute)
			obs.Pods = append(obs.Pods, health.Pod{
				Name: nameOf(fmt.Sprintf("agent-%02d-%05d", s, n)), UID: types.UID(fmt.Sprintf("00000000-0000-0000-%04d-%012d", s, n)),
				Node: name, Owner: obs.DaemonSets[s].UID, Hash: hash, Phase: corev1.PodRunning,
				Created: created.Add(-time.Hour), Ready: true, ReadySince: created.Add(-time.Hour),
			})
		}
	}
	return obs, policies, now
}

func BenchmarkNew(b *testing.B) {
	sizes := []struct{ nodes, sets, perPolicy int }{{500, 20, 1}, {5000, 20, 1}, {5000, 20, 20}, {50000, 2, 1}, {65000, 10, 1}, {65000, 10, 10}}
	for _, size := range sizes {
		for outdated, modulo := range map[string]int{"none": 0, "tenth": 10, "all": 1} {
			b.Run(fmt.Sprintf("nodes=%d/daemonsets=%d/policies=%d/outdated=%s", size.nodes, size.sets, size.sets/size.perPolicy, outdated), func(b *testing.B) {
				obs, policies, now := fleetOf(size.nodes, size.sets, size.perPolicy, func(n int) bool { return modulo > 0 && n%modulo == 0 })
				b.ReportAllocs()
				for b.Loop() {
					New(obs, policies, now)
				}
			})
		}
	}
}
