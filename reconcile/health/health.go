// SPDX-License-Identifier: Apache-2.0

// Package health answers what state a node is in for one DaemonSet, from the
// pods that are there and never from the DaemonSet's status, which counts only
// the oldest pod of a node and ignores readiness.
//
// It turns API objects into the few facts that decisions rest on ([NodeOf],
// [PodOf], [DaemonSetOf]), says where a DaemonSet's pods belong ([NewPlacer])
// and what a pod spec names ([References]), and classifies a node ([Classify]):
//
//	placement := health.ShouldRun(node, ds)
//	v := health.Classify(health.Situation{Node: &node, DaemonSet: &ds, Placement: placement, Pods: pods}, now)
//
// Everything is a function of its arguments: no clock, no client, no log. Whether a
// definition is served ([Established]) comes from kstatus, which only this package
// imports. Pods never go through it: it reads the wall clock for pending ones.
package health

// A State is what one node is for one DaemonSet.
type State string

const (
	// Current: a pod of the revision, Ready for long enough.
	Current State = "current"
	// Settling: a pod of the revision, not settled, and still in time.
	Settling State = "settling"
	// Failed: a pod of the revision that did not settle in time, loops, cannot
	// pull its image or ended; or no pod came back after an eviction.
	Failed State = "failed"
	// Replacing: the old pod is gone or going, and there is no new one yet.
	Replacing State = "replacing"
	// Stuck: a pod that is still there long after its grace period.
	Stuck State = "stuck"
	// Outdated: an available pod of another revision.
	Outdated State = "outdated"
	// OutdatedDown: a pod of another revision that is not available.
	OutdatedDown State = "outdated-down"
	// Unreachable: the node is not Ready, so nothing about its pods is known.
	Unreachable State = "unreachable"
	// NotWanted: the DaemonSet should not run there.
	NotWanted State = "not-wanted"
	// Missing: the DaemonSet should run there, has no pod, and we evicted none.
	Missing State = "missing"
)

// States lists every State, in the order in which the documentation has them.
func States() []State {
	return []State{Current, Settling, Failed, Replacing, Stuck, Outdated, OutdatedDown, Unreachable, NotWanted, Missing}
}

// CordonedByAnnotation is on a node that was cordoned for a visit, and says by
// whom: only they take the cordon off again.
const CordonedByAnnotation = "lamplighter.dev/cordoned-by"

// HoldAnnotation keeps us away from a Node, or from all nodes of a DaemonSet.
// Its value is the reason.
const HoldAnnotation = "lamplighter.dev/hold"
