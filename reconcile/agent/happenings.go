// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// A happening is what a person wants to hear of a DaemonSet, or of another object,
// without asking.
type happening struct {
	daemonSet types.NamespacedName
	object    *unstructured.Unstructured // if it is about one that may be no DaemonSet
	uid       types.UID
	node      string // it is about; "" when about none
	reason    happeningReason
	note      string
	once      string // what makes it another one than those of the same reason
}

// A happeningReason is the reason of an Event.
type happeningReason string

const (
	proceedBegan happeningReason = "ProceedBegan"
	proceedEnded happeningReason = "ProceedEnded"
	halted       happeningReason = "Halted"
	visitFailed  happeningReason = "VisitFailed"
	reverted     happeningReason = "Reverted"
	leaked       happeningReason = "Leaked"
	tooShort     happeningReason = "WindowTooShort"

	driftDetected  happeningReason = "DriftDetected"
	driftCorrected happeningReason = "DriftCorrected"
	driftFought    happeningReason = "DriftFought"
)

// about is the object that a happening is about.
func (h happening) about() corev1.ObjectReference {
	if h.object == nil {
		return corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: h.daemonSet.Namespace, Name: h.daemonSet.Name, UID: h.uid}
	}
	return corev1.ObjectReference{
		APIVersion: h.object.GetAPIVersion(), Kind: h.object.GetKind(),
		Namespace: h.object.GetNamespace(), Name: h.object.GetName(), UID: h.uid,
	}
}

// action of the Event.
func (r happeningReason) action() string {
	switch r {
	case driftDetected, driftCorrected, driftFought:
		return "Apply"
	}
	return "Rollout"
}

// level of the Event.
func (r happeningReason) level() string {
	if r == proceedEnded || r == driftCorrected {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// mostFailures bounds how many failed nodes of one pass are told of, and how many
// objects that have drifted.
const mostFailures = 20

// happenings of a pass. Those of the words to proceed come from a comparison
// with the ones that were in force before, since a person who takes one back
// leaves no trace of it.
func happenings(report reconcile.Report, before []rollout.Proceed, now time.Time) []happening {
	var out []happening
	add := func(policy, once string, reason happeningReason, note string) {
		out = append(out, ofPolicy(report, happening{reason: reason, note: note, once: policy + once}, policy)...)
	}
	for _, p := range report.After.Ledger.Proceeds {
		if report.After.Ledger.Proceeding(p.Policy, now) != nil {
			add(p.Policy, p.Since.String(), proceedBegan, fmt.Sprintf("policy %s proceeds until %s, whatever its windows and freezes say: %s%s",
				p.Policy, p.Until.UTC().Format(time.RFC3339), p.Reason, saidBy(p.By)))
		}
	}
	for _, p := range before {
		if still := report.After.Ledger.Proceeding(p.Policy, now); still == nil {
			add(p.Policy, p.Since.String(), proceedEnded, fmt.Sprintf("windows and freezes of policy %s count again", p.Policy))
		}
	}
	for _, p := range report.Plan.Rollout.Policies {
		if p.Halted {
			add(p.Name, p.HaltMessage, halted, fmt.Sprintf("policy %s: %s", p.Name, p.HaltMessage))
		}
	}
	for _, r := range report.After.Ledger.Reversals {
		h := happening{reason: reverted, note: r.String(), once: r.From + r.Since.UTC().Format(time.RFC3339)}
		out = append(out, ofDaemonSet(report, h, nameOf(r.DaemonSet))...)
	}
	return slices.Concat(out, shortWindows(report), leaksOf(report), failed(report), driftsOf(report))
}

// shortWindows are the policies with nodes that no window is long enough for.
func shortWindows(report reconcile.Report) []happening {
	var out []happening
	told := map[string]bool{}
	for _, d := range report.Plan.Rollout.Decisions {
		if d.Reason != rollout.WindowTooShort || told[d.Policy] {
			continue
		}
		told[d.Policy] = true
		note := fmt.Sprintf("policy %s cannot visit node %s, and perhaps others: %s", d.Policy, d.Node, d.Message)
		out = append(out, ofPolicy(report, happening{reason: tooShort, note: note, once: d.Policy}, d.Policy)...)
	}
	return out
}

func saidBy(who string) string {
	if who == "" {
		return ""
	}
	return " (" + who + ")"
}

// ofPolicy is a happening of each DaemonSet of a policy.
func ofPolicy(report reconcile.Report, h happening, policy string) []happening {
	var out []happening
	for _, p := range report.Observation.Policies.Upgrades {
		if p.Name != policy {
			continue
		}
		for _, name := range p.DaemonSets {
			out = append(out, ofDaemonSet(report, h, name)...)
		}
	}
	return out
}

// ofDaemonSet is a happening of a DaemonSet that exists.
func ofDaemonSet(report reconcile.Report, h happening, name types.NamespacedName) []happening {
	i := slices.IndexFunc(report.Observation.DaemonSets, func(d health.DaemonSet) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	h.daemonSet, h.uid = name, report.Observation.DaemonSets[i].UID
	return []happening{h}
}

// leaksOf are the pods that this pass has put on record as made by no visit.
func leaksOf(report reconcile.Report) []happening {
	before := map[rollout.Leak]bool{}
	for _, l := range report.Before.Ledger.Leaks {
		before[rollout.Leak{DaemonSet: l.DaemonSet, Node: l.Node, Pod: l.Pod}] = true
	}
	var out []happening
	for _, l := range report.After.Ledger.Leaks {
		if l.Pod == "" || before[rollout.Leak{DaemonSet: l.DaemonSet, Node: l.Node, Pod: l.Pod}] {
			continue
		}
		if len(out) == mostFailures {
			break
		}
		note := fmt.Sprintf("node %s is at %s without a visit: %s", l.Node, l.Revision, l.Cause)
		if l.Message != "" {
			note += ", " + l.Message
		}
		out = append(out, ofDaemonSet(report, happening{reason: leaked, node: l.Node, note: note, once: l.Node + string(l.Pod)}, nameOf(l.DaemonSet))...)
	}
	return out
}

// failed are the nodes that this pass has put on record as failed.
func failed(report reconcile.Report) []happening {
	var out []happening
	for _, f := range newFailures(report) {
		if len(out) == mostFailures {
			break
		}
		note := fmt.Sprintf("node %s did not settle on %s: %s", f.Node, f.Revision, f.Message)
		out = append(out, ofDaemonSet(report, happening{reason: visitFailed, node: f.Node, note: note, once: f.Node + f.Revision}, nameOf(f.DaemonSet))...)
	}
	return out
}

// nameOf reads a DaemonSet's name as the ledger writes it.
func nameOf(daemonSet string) types.NamespacedName {
	namespace, name, _ := strings.Cut(daemonSet, string(types.Separator))
	return types.NamespacedName{Namespace: namespace, Name: name}
}
