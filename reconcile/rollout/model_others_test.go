// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

var (
	strangeTemplate = &corev1.PodSpec{NodeName: "nowhere", Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "!", Operator: "Whatever"}},
		}}},
	}}}
	strangeSet    = health.DaemonSet{Name: nameOf("strange"), UID: "strange", Revision: "x", RevisionObserved: true, Template: strangeTemplate}
	strangeNode   = health.Node{Name: "m", Taints: []corev1.Taint{{Key: "strange", Effect: corev1.TaintEffectNoExecute}}}
	strangePods   = []*health.Pod{{Node: "nowhere", Owner: "ds0", UID: "a"}, {Node: "n001", Owner: "nobody", UID: "b"}, {UID: "c", Owner: "strange", Node: "m"}, {}}
	strangePolicy = policy.UpgradePolicy{Name: "q", MaxUnavailable: intstr.FromInt32(1)}
)

// checkOthers: I8 and I9. The same in another order, and with a node, a DaemonSet,
// pods and a policy more with which something is wrong, comes to the same plan.
func (m *model) checkOthers(p *pendingPlan, now time.Time) {
	invariant, obs, policies := "I9", p.obs, slices.Clone(p.policies)
	obs.Nodes, obs.Pods, obs.DaemonSets = slices.Clone(obs.Nodes), slices.Clone(obs.Pods), slices.Clone(obs.DaemonSets)
	if m.chance(2) {
		invariant = "I8"
		obs.Nodes, obs.Pods, obs.DaemonSets = append(obs.Nodes, strangeNode), append(obs.Pods, strangePods...), append(obs.DaemonSets, strangeSet)
		policies = append(policies, strangePolicy)
	} else {
		m.rand.Shuffle(len(obs.Nodes), func(i, j int) { obs.Nodes[i], obs.Nodes[j] = obs.Nodes[j], obs.Nodes[i] })
		m.rand.Shuffle(len(obs.Pods), func(i, j int) { obs.Pods[i], obs.Pods[j] = obs.Pods[j], obs.Pods[i] })
		m.rand.Shuffle(len(obs.DaemonSets), func(i, j int) { obs.DaemonSets[i], obs.DaemonSets[j] = obs.DaemonSets[j], obs.DaemonSets[i] })
		m.rand.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
	}
	other := m.plan(obs, policies, now)
	if !slices.Equal(decided(p.plan.Decisions), decided(other.Decisions)) || !reflect.DeepEqual(p.plan.Ledger.Visits, other.Ledger.Visits) {
		m.Errorf("%s: the plan is another:\n%s", invariant, diffPlans(p.plan, other))
	}
}

// plainDecision is one that can be compared.
type plainDecision struct {
	Ruling
	node string
	pod  Eviction
}

func decided(decisions []Decision) []plainDecision {
	out := make([]plainDecision, len(decisions))
	for i, d := range decisions {
		out[i] = plainDecision{Ruling: *d.Ruling, node: d.Node}
		if d.Pod != nil {
			out[i].pod = *d.Pod
		}
	}
	return out
}
