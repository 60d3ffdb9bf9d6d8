// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// fleetOf has one pod of every DaemonSet on every node. On some nodes they are
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
			obs.Pods = append(obs.Pods, &health.Pod{
				Name: nameOf(fmt.Sprintf("agent-%02d-%05d", s, n)), UID: types.UID(fmt.Sprintf("00000000-0000-0000-%04d-%012d", s, n)),
				Node: name, Owner: obs.DaemonSets[s].UID, Hash: hash, Phase: corev1.PodRunning,
				Created: created.Add(-time.Hour), Ready: true, ReadySince: created.Add(-time.Hour),
			})
		}
	}
	return obs, policies, now
}

// sizes of clusters: three of each kind, so that it shows whether twice the nodes
// cost twice as much, and one whose DaemonSets are all in one policy.
var sizes = []struct{ nodes, sets, perPolicy int }{
	{1250, 20, 1}, {2500, 20, 1}, {5000, 20, 1}, {5000, 20, 20},
	{16250, 10, 1}, {32500, 10, 1}, {65000, 10, 1}, {65000, 10, 10},
}

// phases of a rollout, by name: what is outdated, and what makes the policies
// hold it.
var phases = []struct {
	name     string
	outdated func(node int) bool
	change   func(*Observed, []policy.UpgradePolicy, *time.Time)
}{
	{name: "none-outdated", outdated: func(int) bool { return false }},
	{name: "tenth-outdated", outdated: func(n int) bool { return n%10 == 0 }},
	{name: "all-outdated", outdated: func(int) bool { return true }},
	{name: "window-shut", outdated: func(int) bool { return true }, change: atNoon},
	{name: "waves-and-zones", outdated: func(n int) bool { return !isCanary(n) }, change: inWaves(time.Hour)},
	{name: "soaking", outdated: func(n int) bool { return !isCanary(n) }, change: inWaves(1000 * 24 * time.Hour)},
}

func atNoon(_ *Observed, _ []policy.UpgradePolicy, now *time.Time) { *now = now.Add(13 * time.Hour) }

func isCanary(node int) bool { return node%100 == 0 }

// inWaves has policies visit one node in a hundred first, watch these for so long
// and then go on, in one zone after another.
func inWaves(soak time.Duration) func(*Observed, []policy.UpgradePolicy, *time.Time) {
	return func(obs *Observed, policies []policy.UpgradePolicy, _ *time.Time) {
		for n := range obs.Nodes {
			obs.Nodes[n].Labels = map[string]string{
				"kubernetes.io/os": "linux", "pool": "a", "canary": fmt.Sprint(isCanary(n)), "zone": fmt.Sprint(n % 3),
			}
		}
		for i := range policies {
			policies[i].Topology = policy.Topology{Key: "zone", MaxDomains: 1}
			policies[i].Waves = []policy.Wave{
				{Name: "canaries", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"}), MaxUnavailable: intstr.FromInt32(5), Soak: soak},
				{Name: "rest", MaxUnavailable: intstr.FromString("10%")},
			}
		}
	}
}

// BenchmarkNew makes one plan. Pods come in no order, as watches give them.
func BenchmarkNew(b *testing.B) {
	for _, size := range sizes {
		for _, phase := range phases {
			b.Run(fmt.Sprintf("nodes=%d/daemonsets=%d/policies=%d/%s", size.nodes, size.sets, size.sets/size.perPolicy, phase.name), func(b *testing.B) {
				obs, policies, now := fleetOf(size.nodes, size.sets, size.perPolicy, phase.outdated)
				if phase.change != nil {
					phase.change(&obs, policies, &now)
				}
				random := rand.New(rand.NewPCG(1, 2))
				random.Shuffle(len(obs.Pods), func(i, j int) { obs.Pods[i], obs.Pods[j] = obs.Pods[j], obs.Pods[i] })
				b.ReportAllocs()
				for b.Loop() {
					New(obs, policies, now)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(obs.Pods)), "ns/pod")
			})
		}
	}
}
