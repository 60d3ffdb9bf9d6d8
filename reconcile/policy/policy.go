// SPDX-License-Identifier: Apache-2.0

// Package policy reads the policy kinds of a fleet: MaintenanceWindow, Freeze
// and UpgradePolicy. It answers which policy governs a DaemonSet and what that
// policy says, and lists everything that is wrong, all at once and in words
// that say what to write instead. It never sends anything to a cluster and
// never guesses: a field it does not know is an error.
//
//	set, problems := policy.Parse(docs, daemonSets, now)
//	p, ok := set.For(types.NamespacedName{Namespace: "kube-system", Name: "calico-node"})
//	state := p.Calendar.At(now).Any()
package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/window"
)

// Set is the policies of one fleet, each list sorted by name, with references
// resolved to final names. It is usable only if no Problem is an Error.
type Set struct {
	Windows  []MaintenanceWindow
	Freezes  []Freeze
	Upgrades []UpgradePolicy
}

// MaintenanceWindow is a time in which nodes may be visited.
type MaintenanceWindow struct {
	Name   string
	Window window.Window
	// Source is the document it was read from.
	Source Document
}

// Freeze is a time in which they may not, whatever the windows say.
type Freeze struct {
	Name   string
	Freeze window.Freeze
	Scope  Scope
	// Policies it is limited to; none is all.
	Policies []string
	// Source is the document it was read from.
	Source Document
}

// Scope is what a freeze stops.
type Scope string

const (
	// Upgrades stops visits of nodes.
	Upgrades Scope = "Upgrades"
	// Everything stops applying and pruning too, of every object.
	Everything Scope = "Everything"
)

// TemplatesMode is when a changed DaemonSet is applied.
type TemplatesMode string

const (
	// OnWindow: only while a window of its policy is open, so that a pod that is
	// re-created outside it comes up as it was.
	OnWindow TemplatesMode = "OnWindow"
	// Immediately: at once.
	Immediately TemplatesMode = "Immediately"
)

// OnFailure is what happens after more failures than a policy allows.
type OnFailure string

const (
	// Halt visits no further node until somebody resumes or the revision changes.
	Halt OnFailure = "Halt"
	// Revert halts, and takes the DaemonSets that failed back to the last revision
	// on which all their nodes had settled.
	Revert OnFailure = "Revert"
)

// UpgradePolicy is how the DaemonSets it names are taken to a new version.
type UpgradePolicy struct {
	Name string
	// DaemonSets in the order of a visit, selectors resolved.
	DaemonSets []types.NamespacedName
	// WindowNames as listed, by final name; empty when always open.
	WindowNames []string
	// Calendar has these windows and every freeze that is not limited to other
	// policies.
	Calendar  window.Calendar
	Templates TemplatesMode
	// MaxUnavailable is a number of nodes or a percentage: see MaxUnavailableOf.
	MaxUnavailable intstr.IntOrString
	// Drain says how a node is emptied first; nil is not at all.
	Drain *Drain
	// Gates that every visit waits for.
	Gates []Gate
	// Waves in order; none is all nodes alike.
	Waves []Wave
	// Topology bounds the domains of visits.
	Topology      Topology
	CordonedNodes CordonedNodes
	// MinReadySeconds a new pod is ready before its node is settled.
	MinReadySeconds int32
	// ReadyTimeout bounds the time from a replaced pod to a settled one.
	ReadyTimeout time.Duration
	// TerminationTimeout bounds how long an old pod may outlive its grace period.
	TerminationTimeout time.Duration
	// VisitDuration is the estimate of one visit until it has been measured.
	VisitDuration time.Duration
	// MaxFailures is how many nodes may fail before the policy halts.
	MaxFailures int
	OnFailure   OnFailure
	// Source is the document it was read from.
	Source Document
}

// MaxUnavailableOf is how many of that many nodes may be out of service at
// once: a percentage is rounded up as a DaemonSet does, and it is at least 1.
func (p UpgradePolicy) MaxUnavailableOf(nodes int) int { return atLeastOneOf(p.MaxUnavailable, nodes) }

// For is the policy that governs the DaemonSet.
func (s Set) For(ds types.NamespacedName) (UpgradePolicy, bool) {
	for _, p := range s.Upgrades {
		if slices.Contains(p.DaemonSets, ds) {
			return p, true
		}
	}
	return UpgradePolicy{}, false
}

// Everything is the calendar that applying and pruning of any object obeys:
// always open but for the freezes of scope Everything.
func (s Set) Everything() window.Calendar {
	c := window.Calendar{Always: true}
	for _, f := range s.Freezes {
		if f.Scope == Everything {
			c.Freezes = append(c.Freezes, f.Freeze)
		}
	}
	return c
}
