// SPDX-License-Identifier: Apache-2.0

package rollout

// A Reason says why a decision is what it is. The set is closed, documented in
// docs/concepts/rollout.md, and only ever grows.
type Reason string

const (
	// UpToDate: every DaemonSet of the policy is settled on the node.
	UpToDate Reason = "UpToDate"
	// Start: the pod is evicted now.
	Start Reason = "Start"
	// Settling: a new pod is there and has time left to become available.
	Settling Reason = "Settling"
	// Replacing: the old pod is gone or going, and the new one is awaited.
	Replacing Reason = "Replacing"
	// WindowShut: no window of the policy is open for the node.
	WindowShut Reason = "WindowShut"
	// Frozen: a freeze is in force.
	Frozen Reason = "Frozen"
	// TooLateToStart: a visit would not end before the window closes.
	TooLateToStart Reason = "TooLateToStart"
	// WindowTooShort: no opening ahead is as long as a visit.
	WindowTooShort Reason = "WindowTooShort"
	// BudgetSpent: as many nodes are visited as may be.
	BudgetSpent Reason = "BudgetSpent"
	// WaveWaiting: an earlier wave is not settled.
	WaveWaiting Reason = "WaveWaiting"
	// Soaking: the wave before is settled and is still watched.
	Soaking Reason = "Soaking"
	// TopologyBusy: enough domains are visited.
	TopologyBusy Reason = "TopologyBusy"
	// NodeBusy: another policy visits the node.
	NodeBusy Reason = "NodeBusy"
	// NodeHeld: somebody holds the node.
	NodeHeld Reason = "NodeHeld"
	// DaemonSetHeld: somebody holds the DaemonSet, or its update strategy does
	// not leave its pods to us.
	DaemonSetHeld Reason = "DaemonSetHeld"
	// NodeNotReady: the node is not Ready, or is being deleted.
	NodeNotReady Reason = "NodeNotReady"
	// NodeMaintenance: somebody else is at work on the node, or about to be.
	NodeMaintenance Reason = "NodeMaintenance"
	// NodeCordoned: somebody has cordoned the node.
	NodeCordoned Reason = "NodeCordoned"
	// WouldNotReturn: an evicted pod would not be created again on the node.
	WouldNotReturn Reason = "WouldNotReturn"
	// NoRoom: the new pod would not fit on the node.
	NoRoom Reason = "NoRoom"
	// RevisionNotObserved: the DaemonSet's current revision is not known yet.
	RevisionNotObserved Reason = "RevisionNotObserved"
	// StuckTerminating: a pod is still there long after its grace period.
	StuckTerminating Reason = "StuckTerminating"
	// DisruptionBudget: the API server refused the eviction.
	DisruptionBudget Reason = "DisruptionBudget"
	// Checking: what has to be known first is being found out.
	Checking Reason = "Checking"
	// NotAdmitted: the API server would not admit the new pod.
	NotAdmitted Reason = "NotAdmitted"
	// Draining: other pods are evicted from the node first.
	Draining Reason = "Draining"
	// DrainFailed: the node could not be emptied in time.
	DrainFailed Reason = "DrainFailed"
	// GateShut: a gate of the policy or of the wave is shut.
	GateShut Reason = "GateShut"
	// JobRunning: a Job of a gate runs for the node.
	JobRunning Reason = "JobRunning"
	// Failed: the new pod did not settle.
	Failed Reason = "Failed"
	// Halted: more nodes have failed than the policy allows.
	Halted Reason = "Halted"
	// Paused: somebody has paused the policy.
	Paused Reason = "Paused"
	// ClockUntrusted: the clock by which windows are read is not to be trusted.
	ClockUntrusted Reason = "ClockUntrusted"
)

// Reasons lists every Reason, in the order in which the documentation has them.
func Reasons() []Reason {
	return []Reason{
		UpToDate, Start, Settling, Replacing, WindowShut, Frozen, TooLateToStart, WindowTooShort, BudgetSpent,
		WaveWaiting, Soaking, TopologyBusy, NodeBusy, NodeHeld, DaemonSetHeld, NodeNotReady, NodeMaintenance, NodeCordoned,
		WouldNotReturn, NoRoom, RevisionNotObserved, StuckTerminating, DisruptionBudget, Checking, NotAdmitted, GateShut, JobRunning, Draining, DrainFailed, Failed, Halted, Paused,
		ClockUntrusted,
	}
}
