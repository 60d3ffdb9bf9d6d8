// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// Applied is what one pass did.
type Applied struct {
	// Objects are those that were acted on, in the order in which that was done,
	// then those that were held or refused, sorted. What was as it should be is
	// only counted.
	Objects   []AppliedObject `json:"objects"`
	Evictions []Eviction      `json:"evictions"`
	Unchanged int             `json:"unchanged"`
}

// AppliedObject is what became of one object.
type AppliedObject struct {
	Object string `json:"object"`
	Origin
	Result string `json:"result"` // the result in lower case: created, configured, pruned, held, ...
	Reason string `json:"reason,omitempty"`
	Until  string `json:"until,omitempty"`
	// Message is what reason and result do not say: for a failure, what failed.
	Message string `json:"message,omitempty"`
}

// Eviction is what became of one pod.
type Eviction struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Policy  string `json:"policy"`
	Result  string `json:"result"` // sent, refused, gone or errored
	Message string `json:"message,omitempty"`
}

// NewApplied sums a report up.
func NewApplied(report reconcile.Report) Applied {
	a := Applied{Objects: []AppliedObject{}, Evictions: []Eviction{}}
	decided, sources := map[inventory.ID]bool{}, map[inventory.ID]inventory.Source{} // decided: not acted on
	for _, d := range report.Plan.Objects.Decisions() {
		sources[d.ID] = d.Source
		decided[d.ID] = d.Action == inventory.Keep || d.Action == inventory.Hold || d.Action == inventory.Refuse
	}
	for _, o := range report.Outcomes {
		if decided[o.ID] {
			continue
		}
		object := AppliedObject{Object: inventory.Format(o.ID), Origin: originOf(sources[o.ID]), Result: lower(o.Result)}
		if o.Err != nil {
			object.Message = messageAbout(o.ID, o.Err.Error())
		}
		a.Objects = append(a.Objects, object)
	}
	for _, d := range report.Plan.Objects.Decisions() {
		switch d.Action {
		case inventory.Keep:
			a.Unchanged++
		case inventory.Hold:
			a.Objects = append(a.Objects, notDone(d, inventory.ResultHeld))
		case inventory.Refuse:
			a.Objects = append(a.Objects, notDone(d, inventory.ResultRefused))
		case inventory.Apply, inventory.Recreate, inventory.Prune, inventory.Release: // the outcome says it
		}
	}
	for _, attempt := range report.Attempts {
		e := Eviction{
			Pod: attempt.Decision.Pod.Name.String(), Node: attempt.Decision.Node,
			Policy: attempt.Decision.Policy, Result: lower(attempt.Result),
		}
		if attempt.Result != rollout.Sent {
			e.Message = attempt.Problem()
		}
		a.Evictions = append(a.Evictions, e)
	}
	return a
}

func notDone(d inventory.Decision, r inventory.Result) AppliedObject {
	o := AppliedObject{Object: inventory.Format(d.ID), Origin: originOf(d.Source), Result: lower(r), Reason: string(d.Reason), Message: messageAbout(d.ID, d.Message)}
	if !d.Until.IsZero() {
		o.Until = Time(d.Until)
	}
	return o
}

func lower[T ~string](word T) string { return strings.ToLower(string(word)) }

// Failed says that something was tried, or had to be refused, and did not work.
// What is held waits for its time; what could not be looked at does not.
func (a Applied) Failed() bool {
	return slices.ContainsFunc(a.Objects, AppliedObject.failed) ||
		slices.ContainsFunc(a.Evictions, func(e Eviction) bool { return e.Result == lower(rollout.Errored) })
}

func (o AppliedObject) failed() bool {
	switch o.Result {
	case lower(inventory.ResultConflict), lower(inventory.ResultRefused), lower(inventory.ResultSkipped), lower(inventory.ResultFailed):
		return true
	case lower(inventory.ResultHeld):
		return o.Reason == string(inventory.Failing) || o.Reason == string(inventory.Unknown)
	}
	return false
}

// HasConflict says that another field manager stands in the way.
func (a Applied) HasConflict() bool {
	return slices.ContainsFunc(a.Objects, func(o AppliedObject) bool {
		return o.Result == lower(inventory.ResultConflict) || o.Reason == string(inventory.Conflict)
	})
}

// WriteApplied writes a line for each object and eviction, and one of totals.
func WriteApplied(w io.Writer, a Applied) error {
	var b strings.Builder
	failed := 0
	countByResult := map[string]int{}
	for _, o := range a.Objects {
		message := o.Message
		if o.failed() {
			failed++
			message = o.beside(message)
		} else {
			countByResult[o.Result]++
		}
		fmt.Fprintln(&b, line(o.Object+" "+o.Result, o.Reason, o.Until, message))
	}
	evicted := 0
	for _, e := range a.Evictions {
		if e.Result == lower(rollout.Sent) {
			evicted++
		}
		fmt.Fprintln(&b, line("Pod/"+e.Pod+" on "+e.Node+" eviction "+e.Result, "", "", e.Message))
	}
	done := func(results ...inventory.Result) (n int) {
		for _, r := range results {
			n += countByResult[lower(r)]
		}
		return n
	}
	fmt.Fprintf(&b, "%d applied, %d pruned, %d held, %d failed, %d unchanged; %s evicted\n",
		done(inventory.ResultCreated, inventory.ResultConfigured, inventory.ResultRecreated),
		done(inventory.ResultPruned, inventory.ResultDeleting, inventory.ResultReleased),
		done(inventory.ResultHeld), failed, a.Unchanged, countOf(evicted, "pod"))
	_, err := io.WriteString(w, b.String())
	return err
}

// messageAbout drops the object's name from the head of a message that is shown
// beside it.
func messageAbout(id inventory.ID, message string) string {
	return strings.TrimPrefix(message, inventory.Format(id)+": ")
}

// line joins what is known of something: "subject: reason until time: message".
func line(subject, reason, until, message string) string {
	if reason != "" {
		subject += ": " + reason
	}
	if until != "" {
		subject += " until " + until
	}
	if message != "" {
		subject += ": " + message
	}
	return subject
}
