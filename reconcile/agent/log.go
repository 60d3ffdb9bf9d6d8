// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// logPass writes one line if the pass changed something, and one for each thing
// that went wrong. A pass that found everything as it should be is silent.
func (a *Agent) logPass(report reconcile.Report, took time.Duration) {
	c := count(report)
	for _, o := range report.Outcomes {
		if o.Err != nil && o.Result != inventory.ResultSkipped {
			a.log.Warn("object", "object", inventory.Format(o.ID), "result", o.Result, "err", o.Err)
		}
	}
	for _, at := range report.Attempts {
		if at.Result == rollout.Refused || at.Result == rollout.Errored {
			a.log.Warn("eviction", "policy", at.Decision.Policy, "node", at.Decision.Node, "result", at.Result, "message", at.Problem())
		}
	}
	for _, at := range report.Drains {
		if at.Result == rollout.Errored {
			a.log.Warn("drain", "policy", at.Decision.Policy, "node", at.Decision.Node, "message", at.Message)
		}
	}
	if report.StillCordoned != nil {
		a.log.Warn("nodes stay cordoned", "err", report.StillCordoned)
	}
	for _, at := range report.Jobs {
		if at.Err != nil {
			a.log.Warn("job", "policy", at.Job.Policy, "node", at.Job.Node, "gate", at.Job.Gate.Name, "err", at.Err)
		}
	}
	if report.StopErr != nil {
		a.log.Warn("jobs", "err", report.StopErr)
	}
	a.logHalts(report)
	a.logClock(report)
	if refused := report.Observation.Refused(); refused != nil && report.Before.Record.Problem != report.After.Record.Problem {
		a.log.Warn("newest commit is not in force", "err", refused)
	}
	if c == (counts{}) && !newCommit(report) {
		return
	}
	a.log.Info("pass done", "revision", short(report.After.Record.Commit.Hash),
		"applied", c.applied, "pruned", c.pruned, "held", c.held, "failed", c.failed,
		"evicted", c.evicted, "settled", c.settled, "took", took.Round(time.Millisecond))
}

// counts are what a pass changed. What is held counts as it changes.
type counts struct{ applied, pruned, held, failed, evicted, settled int }

func count(report reconcile.Report) counts {
	var c counts
	for _, o := range report.Outcomes {
		switch o.Result {
		case inventory.ResultCreated, inventory.ResultConfigured, inventory.ResultRecreated:
			c.applied++
		case inventory.ResultPruned, inventory.ResultReleased:
			c.pruned++
		case inventory.ResultConflict, inventory.ResultRefused, inventory.ResultFailed:
			c.failed++
		}
	}
	for _, at := range report.Attempts {
		if at.Result == rollout.Sent {
			c.evicted++
		}
	}
	c.settled = len(finishedSince(report.Before.Ledger, report.After.Ledger))
	if !sameNotes(report.Before.Record.Objects, report.After.Record.Objects) {
		c.held = len(report.After.Record.Objects)
	}
	return c
}

func newCommit(report reconcile.Report) bool {
	return report.Before.Record.Commit.Hash != report.After.Record.Commit.Hash
}

// finishedSince are the visits that ended between two ledgers.
func finishedSince(before, after rollout.Ledger) []rollout.Visit {
	known := map[string]bool{}
	for _, v := range before.Finished {
		known[visitKey(v)] = true
	}
	var out []rollout.Visit
	for _, v := range after.Finished {
		if !known[visitKey(v)] {
			out = append(out, v)
		}
	}
	return out
}

func visitKey(v rollout.Visit) string {
	return v.Policy + "/" + v.Node + "/" + v.Started.UTC().Format(time.RFC3339Nano)
}

func sameNotes(a, b []reconcile.ObjectNote) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Object != b[i].Object || a[i].Reason != b[i].Reason {
			return false
		}
	}
	return true
}

// logClock says when the clock comes to be doubted, and when no more.
func (a *Agent) logClock(report reconcile.Report) {
	switch before, after := report.Before.Record.Clock.Problem, report.After.Record.Clock.Problem; {
	case before == after:
	case after == "":
		a.log.Info("the clock is trusted again")
	default:
		a.log.Warn("windows stay shut", "clock", after)
	}
}

// logHalts says when a node fails.
func (a *Agent) logHalts(report reconcile.Report) {
	for _, f := range newFailures(report) {
		a.log.Warn("node failed", "policy", f.Policy, "node", f.Node, "daemonset", f.DaemonSet, "revision", f.Revision, "message", f.Message)
	}
}

// newFailures are those that a pass has put on record.
func newFailures(report reconcile.Report) []rollout.Failure {
	known := map[string]bool{}
	for _, f := range report.Before.Ledger.Failures {
		known[f.Policy+"/"+f.Node+"/"+f.DaemonSet+"/"+f.Revision] = true
	}
	var out []rollout.Failure
	for _, f := range report.After.Ledger.Failures {
		if !known[f.Policy+"/"+f.Node+"/"+f.DaemonSet+"/"+f.Revision] {
			out = append(out, f)
		}
	}
	return out
}
