// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
)

// ID names a check. It never changes, and is not used again for another.
type ID string

// The checks, in the order of docs/checks.md.
const (
	Render           ID = "render"
	InvalidPolicy    ID = "invalid-policy"
	WindowExample    ID = "window-example"
	UpdateStrategy   ID = "update-strategy"
	InvalidObject    ID = "invalid-object"
	Encrypted        ID = "encrypted"
	SelectorMismatch ID = "selector-mismatch"

	ReadyTimeout     ID = "ready-timeout"
	DisruptionBudget ID = "disruption-budget"
	HostPortConflict ID = "host-port-conflict"

	PolicyWarning        ID = "policy-warning"
	NoPolicy             ID = "no-policy"
	NoReadinessProbe     ID = "no-readiness-probe"
	ShortVisitDuration   ID = "short-visit-duration"
	SlowStart            ID = "slow-start"
	LongGracePeriod      ID = "long-grace-period"
	AllUnavailable       ID = "all-unavailable"
	HoldWithoutReason    ID = "hold-without-reason"
	MutableConfig        ID = "mutable-config"
	MissingReference     ID = "missing-reference"
	LatestTag            ID = "latest-tag"
	NoRequests           ID = "no-requests"
	NodeCriticalPriority ID = "node-critical-priority"
	NotReadyToleration   ID = "not-ready-toleration"
	VersionInSelector    ID = "version-in-selector"
	UnknownCheck         ID = "unknown-check"

	NoDigest          ID = "no-digest"
	NoPriorityClass   ID = "no-priority-class"
	NotOnControlPlane ID = "not-on-control-plane"
	MissingSecret     ID = "missing-secret"
)

// Check is what every finding of one ID has in common.
type Check struct {
	ID     ID
	Level  Level
	Remedy string
	// Binding: the agent or the API server refuses the object, so that silencing
	// it would help nobody.
	Binding bool
}

// All lists every check, sorted by ID.
func All() []Check {
	return slices.SortedFunc(maps.Values(catalogue), func(a, b Check) int { return cmp.Compare(a.ID, b.ID) })
}

var catalogue = index(
	Check{Render, Error, "Mend the file: `lamplighter render` says the same, and the agent keeps the last good commit.", true},
	Check{InvalidPolicy, Error, "Write what the message says: the agent takes no commit with an error in a policy.", true},
	Check{WindowExample, Error, "Correct the example, or the times of the window if they are not what was meant; `lamplighter windows --at` explains an instant.", true},
	Check{UpdateStrategy, Error, "Set spec.updateStrategy.type: OnDelete, or take the DaemonSet out of the policy.", true},
	Check{InvalidObject, Error, "Correct the field's name, place or type: the API server refuses the object as it is.", true},
	Check{Encrypted, Error, "Give the keys with --decryption-keys: the agent and `lamplighter apply` take nothing that is encrypted.", true},
	Check{SelectorMismatch, Error, "Give the template every label of spec.selector: the API server refuses the object as it is.", true},

	Check{ReadyTimeout, Error, "Raise readyTimeout of the policy, or lower the probe's delay or minReadySeconds.", false},
	Check{DisruptionBudget, Error, "Use an integer minAvailable, or drop the budget: the policy's maxUnavailable does its work.", false},
	Check{HostPortConflict, Error, "Give one of them another port, or node selectors that never match the same node.", false},

	Check{PolicyWarning, Warning, "Change the policy if the surprise is not what was meant.", false},
	Check{NoPolicy, Warning, "List it in spec.daemonSets of an UpgradePolicy, and set updateStrategy OnDelete.", false},
	Check{NoReadinessProbe, Warning, "Add a readinessProbe that succeeds once the agent does its work.", false},
	Check{ShortVisitDuration, Warning, "Set visitDuration to what one node really takes.", false},
	Check{SlowStart, Warning, "Raise readyTimeout of the policy, or give the startupProbe less time.", false},
	Check{LongGracePeriod, Warning, "Raise visitDuration of the policy above it, or lower the grace period.", false},
	Check{AllUnavailable, Warning, "Write a number or a smaller percentage.", false},
	Check{HoldWithoutReason, Warning, "Write why, and who knows when it may go: the value is shown wherever the node or DaemonSet is held.", false},
	Check{MutableConfig, Warning, "Let a configMapGenerator or secretGenerator make it, so that a change is a new name and a new template; or set immutable: true.", false},
	Check{MissingReference, Warning, "Add it to the fleet, or make sure that something else creates it before the pod starts.", false},
	Check{LatestTag, Warning, "Name a version, better a digest.", false},
	Check{NoRequests, Warning, "Set resources.requests for cpu and memory.", false},
	Check{NodeCriticalPriority, Warning, "Set priorityClassName: system-node-critical.", false},
	Check{NotReadyToleration, Warning, "Tolerate node.kubernetes.io/not-ready with effect NoSchedule.", false},
	Check{VersionInSelector, Warning, "Keep only labels in spec.selector that never change.", false},
	Check{UnknownCheck, Warning, "Correct or drop the name in the annotation " + IgnoreAnnotation + ".", false},

	Check{NoDigest, Info, "Pin the image as name:tag@sha256:DIGEST.", false},
	Check{NoPriorityClass, Info, "Set priorityClassName, so that a restarted pod finds room on a full node.", false},
	Check{NotOnControlPlane, Info, "Tolerate node-role.kubernetes.io/control-plane with effect NoSchedule, if it is meant to run there.", false},
	Check{MissingSecret, Info, "Make sure that something creates it before the pod starts.", false},
)

func index(checks ...Check) map[ID]Check {
	byID := make(map[ID]Check, len(checks))
	for _, c := range checks {
		byID[c.ID] = c
	}
	return byID
}
