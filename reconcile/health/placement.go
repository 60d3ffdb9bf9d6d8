// SPDX-License-Identifier: Apache-2.0

package health

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A Placement says whether a DaemonSet's pod belongs on a node.
type Placement struct {
	ShouldRun      bool   // the controller creates a pod when there is none
	ShouldContinue bool   // the controller leaves a pod alone that is there
	Reason         string // why it should not run; "" when it should
}

// ShouldRun places one DaemonSet on one node. For many nodes use [NewPlacer].
func ShouldRun(n Node, d DaemonSet) Placement {
	p := NewPlacer(d)
	return p.On(&n)
}

// A Placer answers for one DaemonSet where its pods belong, as the DaemonSet
// controller does: node name, node selector and required node affinity, and the
// taints, with the tolerations that the controller adds. As there, resources
// and ports do not count.
type Placer struct {
	nodeName    string
	selector    []label
	terms       *nodeaffinity.LazyErrorNodeSelector // nil without required node affinity
	tolerations []corev1.Toleration
}

type label struct{ key, value, reason string }

// NewPlacer parses the DaemonSet's template once for many nodes.
func NewPlacer(d DaemonSet) Placer {
	if d.Template == nil {
		return Placer{tolerations: AddedTolerations(false)}
	}
	p := Placer{
		nodeName:    d.Template.NodeName,
		tolerations: append(AddedTolerations(d.Template.HostNetwork), d.Template.Tolerations...),
	}
	for _, key := range slices.Sorted(maps.Keys(d.Template.NodeSelector)) {
		p.selector = append(p.selector, label{
			key, d.Template.NodeSelector[key], "the node does not have the label " + key + "=" + d.Template.NodeSelector[key],
		})
	}
	a := d.Template.Affinity
	if a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		p.terms = nodeaffinity.NewLazyErrorNodeSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return p
}

// On places the DaemonSet on a node.
func (p *Placer) On(n *Node) Placement {
	if p.nodeName != "" && p.nodeName != n.Name {
		return Placement{Reason: "the template names node " + p.nodeName}
	}
	if reason := p.mismatch(n); reason != "" {
		return Placement{Reason: reason}
	}
	var noSchedule *corev1.Taint
	for i := range n.Taints {
		switch t := &n.Taints[i]; {
		case t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute, p.tolerates(t):
		case t.Effect == corev1.TaintEffectNoExecute:
			return Placement{Reason: "untolerated taint " + t.ToString()}
		case noSchedule == nil:
			noSchedule = t
		}
	}
	if noSchedule != nil {
		return Placement{ShouldContinue: true, Reason: "untolerated taint " + noSchedule.ToString()}
	}
	return Placement{ShouldRun: true, ShouldContinue: true}
}

// mismatch says which part of node selector and affinity the node fails, in
// words that are made once: most DaemonSets mismatch on many nodes.
func (p *Placer) mismatch(n *Node) string {
	for i := range p.selector {
		want := &p.selector[i]
		if got, ok := n.Labels[want.key]; !ok || got != want.value {
			return want.reason
		}
	}
	if p.terms == nil {
		return ""
	}
	// As in the controller, an affinity that does not parse matches nothing.
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	if ok, _ := p.terms.Match(&node); !ok {
		return "the node does not match the required node affinity"
	}
	return ""
}

func (p *Placer) tolerates(t *corev1.Taint) bool {
	return slices.ContainsFunc(p.tolerations, func(tol corev1.Toleration) bool { return tolerates(&tol, t) })
}

// tolerates is the rule of the API without the comparison operators, which are
// behind a feature gate that is off.
func tolerates(tol *corev1.Toleration, t *corev1.Taint) bool {
	if (tol.Effect != "" && tol.Effect != t.Effect) || (tol.Key != "" && tol.Key != t.Key) {
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	default:
		return false
	}
}

// AddedTolerations are those that the DaemonSet controller gives every pod, with
// one more on the host's network.
func AddedTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	added := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		added = append(added, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return added
}
