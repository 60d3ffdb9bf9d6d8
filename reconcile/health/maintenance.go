// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Mark says that somebody else is at work on a node, or about to be. While it
// is there, nothing is evicted on the node.
type Mark struct {
	Kind MarkKind
	// Key of it; one that ends with * is every key that begins so.
	Key string
	// Rest are the values with which it says that nobody is at work.
	Rest []string
	// Means who is at work, and on what.
	Means string
	// Intended: nobody is yet, and it may take days until somebody is.
	Intended bool
}

// A MarkKind is the part of an object that has the mark.
type MarkKind string

const (
	// OnTaint: a taint of the node, whatever its effect.
	OnTaint MarkKind = "taint"
	// OnCondition: a condition of the node that is True.
	OnCondition MarkKind = "condition"
	// OnAnnotation: an annotation of the node.
	OnAnnotation MarkKind = "annotation"
	// OnLabel: a label of the node.
	OnLabel MarkKind = "label"
	// OnDaemonSet: an annotation of a DaemonSet that names the node.
	OnDaemonSet MarkKind = "DaemonSet annotation"
)

// kuredLock is the annotation in which kured writes who may reboot.
const kuredLock = "weave.works/kured-node-lock"

// Marks lists every Mark, in the order in which they are looked for and in which
// the documentation has them.
func Marks() []Mark {
	return []Mark{
		{Kind: OnTaint, Key: corev1.TaintNodeOutOfService, Means: "an administrator has taken the node out of service"},
		{Kind: OnTaint, Key: "node.cloudprovider.kubernetes.io/shutdown", Means: "the cloud has shut the machine down"},
		{Kind: OnTaint, Key: "ToBeDeletedByClusterAutoscaler", Means: "cluster-autoscaler deletes the node"},
		{Kind: OnTaint, Key: "DeletionCandidateOfClusterAutoscaler", Means: "cluster-autoscaler may delete the node soon", Intended: true},
		{Kind: OnTaint, Key: "karpenter.sh/disrupted", Means: "Karpenter replaces the node"},
		{Kind: OnTaint, Key: "karpenter.sh/disruption", Means: "an older Karpenter replaces the node"},
		{Kind: OnTaint, Key: "aws-node-termination-handler/*", Means: "AWS is about to take the machine"},
		{Kind: OnTaint, Key: "cloud.google.com/impending-node-termination", Means: "Google Cloud is about to take the machine"},
		{Kind: OnTaint, Key: "UpdateInProgress", Means: "the Machine Config Operator updates the node"},
		{Kind: OnTaint, Key: "medik8s.io/drain", Means: "the Node Maintenance Operator drains the node"},
		{Kind: OnTaint, Key: "weave.works/kured-node-reboot", Means: "kured wants to reboot the node", Intended: true},
		{Kind: OnCondition, Key: string(corev1.NodeGracefulNodeShutdownInProgress), Means: "the kubelet shuts the node down"},
		{Kind: OnCondition, Key: string(corev1.NodeMaintenanceInProgress), Means: "somebody works on the node"},
		{Kind: OnCondition, Key: string(corev1.NodeDrainInProgress), Means: "somebody drains the node"},
		{Kind: OnCondition, Key: string(corev1.NodeDrained), Means: "somebody has drained the node"},
		{Kind: OnAnnotation, Key: "machineconfiguration.openshift.io/state", Rest: []string{"", "Done"}, Means: "the Machine Config Operator is not done with the node"},
		{Kind: OnAnnotation, Key: "weave.works/kured-reboot-in-progress", Means: "kured reboots the node"},
		{Kind: OnLabel, Key: "nvidia.com/gpu-driver-upgrade-state", Rest: []string{"", "upgrade-done", "upgrade-required", "upgrade-failed"}, Means: "the GPU operator upgrades the driver"},
		{Kind: OnDaemonSet, Key: kuredLock, Means: "kured holds its lock for the node"},
	}
}

// said is a mark in one line.
func (m Mark) said(key string) string { return m.Means + " (" + string(m.Kind) + " " + key + ")" }

func (m Mark) matches(key string) bool {
	prefix, open := strings.CutSuffix(m.Key, "*")
	return key == m.Key || (open && strings.HasPrefix(key, prefix))
}

// maintenanceOf says who else is at work on a node, or about to be; "" when nobody
// is. Begun says that somebody is at it, whoever is named.
func maintenanceOf(n *corev1.Node, marks []Mark) (who string, begun bool) {
	for _, m := range marks {
		if key, ok := m.on(n); ok {
			who, begun = cmp.Or(who, m.said(key)), begun || !m.Intended
		}
	}
	return who, begun
}

// on finds the key of the node that has the mark.
func (m Mark) on(n *corev1.Node) (string, bool) {
	switch m.Kind {
	case OnTaint:
		if i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return m.matches(t.Key) }); i >= 0 {
			return n.Spec.Taints[i].Key, true
		}
	case OnCondition:
		return m.Key, slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return string(c.Type) == m.Key && c.Status == corev1.ConditionTrue
		})
	case OnAnnotation, OnLabel:
		values := n.Annotations
		if m.Kind == OnLabel {
			values = n.Labels
		}
		value, marked := values[m.Key]
		return m.Key, marked && !slices.Contains(m.Rest, value)
	case OnDaemonSet: // see locksOf
	}
	return "", false
}

// A Lock says that kured is about to reboot a node.
type Lock struct {
	Node string
	// Until is when it ends by itself: kured gives it to another node then. Zero is
	// never.
	Until time.Time
}

// locksOf reads for which nodes kured holds its lock: a single one, or several.
func locksOf(annotations map[string]string) []Lock {
	text, locked := annotations[kuredLock]
	if !locked {
		return nil
	}
	var lock struct {
		lockOwner
		Locks []lockOwner `json:"locks"`
	}
	if json.Unmarshal([]byte(text), &lock) != nil {
		return nil // nobody can tell which node it is for, kured neither
	}
	var locks []Lock
	for _, o := range append(lock.Locks, lock.lockOwner) {
		if o.NodeID != "" {
			locks = append(locks, Lock{Node: o.NodeID, Until: o.until()})
		}
	}
	return locks
}

// lockOwner is a node as kured writes it into its lock.
type lockOwner struct {
	NodeID  string          `json:"nodeID"`
	Created json.RawMessage `json:"created"` // an instant
	TTL     json.RawMessage `json:"TTL"`     // in nanoseconds; 0 is without end
}

// until is when the lock of the node ends; zero when it does not, or when that
// cannot be read.
func (o lockOwner) until() time.Time {
	var (
		created time.Time
		ttl     time.Duration
	)
	if json.Unmarshal(o.Created, &created) != nil || json.Unmarshal(o.TTL, &ttl) != nil || ttl <= 0 {
		return time.Time{}
	}
	return created.Add(ttl)
}

// LockMessage is what is said of a node in a DaemonSet's Locks.
func LockMessage(d *DaemonSet) string {
	marks := Marks()
	return marks[len(marks)-1].said(kuredLock + " of " + d.Name.String())
}
