// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lamplighter.dev/inventory"
)

// A Node is what decisions need to know of a Node object.
type Node struct {
	Name           string
	Labels         map[string]string
	Taints         []corev1.Taint
	Ready          bool
	Since          time.Time // when it last became Ready, or stopped being it; zero when not known
	NotReadyReason string    // the kubelet's or the node controller's words; "" when Ready
	Unschedulable  bool      // cordoned
	Deleting       bool      // has a deletionTimestamp
	Hold           string    // the hold annotation's reason; "" when not held
	Maintenance    string    // who else is at work on it, or about to be; "" when nobody is: see Marks
	AtWork         bool      // somebody of whom Maintenance tells has begun
	CordonedBy     string    // the mark of whoever cordoned it for a visit; "" when nobody did
	CordonTakenBy  string    // who has cordoned it since, as a field manager; "" when nobody has, or that is not known
	Conditions     []NodeCondition
	Created        time.Time
}

// A NodeCondition is the status of one condition of a node.
type NodeCondition struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
}

// NodeOf reads a Node object. Labels and Taints are shared with it.
func NodeOf(n *corev1.Node) Node {
	node := Node{
		Name:           n.Name,
		Created:        n.CreationTimestamp.Time,
		Labels:         n.Labels,
		Taints:         n.Spec.Taints,
		NotReadyReason: "the node has no Ready condition",
		Unschedulable:  n.Spec.Unschedulable,
		Deleting:       n.DeletionTimestamp != nil,
		Hold:           holdOf(n.Annotations),
		CordonedBy:     n.Annotations[CordonedByAnnotation],
		CordonTakenBy:  cordonTakenBy(n),
	}
	node.Maintenance, node.AtWork = maintenanceOf(n, Marks())
	for _, c := range n.Status.Conditions {
		node.Conditions = append(node.Conditions, NodeCondition{c.Type, c.Status})
		if c.Type != corev1.NodeReady {
			continue
		}
		node.Ready = c.Status == corev1.ConditionTrue
		node.Since = c.LastTransitionTime.Time
		node.NotReadyReason = ""
		if !node.Ready {
			node.NotReadyReason = cmp.Or(joinWords(c.Reason, c.Message), "Ready is "+string(c.Status))
		}
	}
	return node
}

// Cordoned says that nothing new is to be scheduled on the node: somebody
// wants it left alone. DaemonSet pods come up there all the same.
func (n *Node) Cordoned() bool {
	return n.Unschedulable || slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
}

// cordonTakenBy finds another field manager than ours that has set the cordon of a
// node that carries a mark. Whoever cordons a node that is cordoned already changes
// nothing, and leaves no trace, unless he applies it.
func cordonTakenBy(n *corev1.Node) string {
	if !n.Spec.Unschedulable || n.Annotations[CordonedByAnnotation] == "" {
		return ""
	}
	for _, e := range n.ManagedFields {
		if e.Manager == inventory.FieldManager || e.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if fields.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) == nil && fields.Has(fieldpath.MakePathOrDie("spec", "unschedulable")) {
			return e.Manager
		}
	}
	return ""
}

// holdOf reads the hold annotation. An annotation without a reason holds too.
func holdOf(annotations map[string]string) string {
	reason, held := annotations[HoldAnnotation]
	if !held {
		return ""
	}
	return cmp.Or(reason, "no reason given")
}

// joinWords writes "Reason: message", or the one that is there.
func joinWords(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
