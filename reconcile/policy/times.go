// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/window"
)

// example is a test that a window carries with it.
type example struct {
	at   time.Time
	open bool
	path string
}

// readTimes reads the time fields that windows and freezes share. It is false
// if they do not make a window; the reason is reported.
func readTimes(name string, spec *fields) (window.Window, bool) {
	recurring := spec.has("timeZone") || spec.has("schedule") || spec.has("duration")
	oneOff := spec.has("start") || spec.has("end")
	switch {
	case recurring && oneOff:
		for _, f := range []string{"timeZone", "schedule", "duration", "start", "end"} {
			spec.take(f)
		}
		spec.subject.errorf(spec.path, "has both a schedule and a start or end: it is either recurring (timeZone, schedule, duration) or a one-off (start, end)")
		return window.Window{}, false
	case oneOff:
		return readOneOff(name, spec)
	case recurring:
		return readRecurring(name, spec)
	}
	for _, f := range []string{"timeZone", "schedule", "duration", "start", "end"} {
		spec.take(f)
	}
	spec.subject.errorf(spec.path, "has no time: write timeZone, schedule and duration, or start and end")
	return window.Window{}, false
}

func readRecurring(name string, spec *fields) (window.Window, bool) {
	spec.take("start")
	spec.take("end")
	before := len(spec.subject.report.problems)
	s := window.RecurringSpec{Name: name, TimeZone: spec.text("timeZone"), Schedule: spec.text("schedule")}
	s.Duration, _ = spec.durationText("duration")
	if len(spec.subject.report.problems) > before {
		return window.Window{}, false // not strings: one message for each is enough
	}
	w, err := window.Recurring(s)
	if e, ok := errors.AsType[*window.SpecError](err); ok {
		for _, f := range e.Fields {
			spec.errorf(f.Field, "%s", f.Message)
		}
	}
	return w, err == nil
}

func readOneOff(name string, spec *fields) (window.Window, bool) {
	start, startOK := readBound(spec, "start")
	end, endOK := readBound(spec, "end")
	for _, f := range []string{"timeZone", "schedule", "duration"} {
		spec.take(f)
	}
	if !startOK || !endOK {
		return window.Window{}, false
	}
	w, err := window.OneOff(name, start, end)
	if e, ok := errors.AsType[*window.SpecError](err); ok {
		for _, f := range e.Fields {
			spec.errorf(f.Field, "%s", f.Message)
		}
	}
	return w, err == nil
}

func readBound(spec *fields, name string) (time.Time, bool) {
	if spec.blank(name) {
		spec.take(name)
		spec.errorf(name, "is required: a timestamp with offset, such as 2026-12-05T22:00:00+01:00")
		return time.Time{}, false
	}
	return spec.instant(name)
}

func readExamples(spec *fields) []example {
	var out []example
	for _, f := range spec.objects("examples") {
		if f.blank("at") {
			f.errorf("at", "is required: a timestamp with offset")
		}
		at, ok := f.instant("at")
		open, set := f.flag("open")
		if !f.has("open") {
			f.errorf("open", "is required: true or false")
		}
		f.done()
		if ok && set {
			out = append(out, example{at: at, open: open, path: f.path})
		}
	}
	return out
}

// verify checks the examples against the window itself, without freezes and
// selectors, and tells the truth where one is wrong: in full, then as explain has it.
func verify(s subject, w window.Window, examples []example, explain func(at time.Time) string) {
	for _, e := range examples {
		state := window.Calendar{Allows: []window.Window{w}}.At(e.at).Any()
		if state.Open == e.open {
			continue
		}
		at, loc, why := e.at.Format(time.RFC3339), w.Location(), explain(e.at)
		if why != "" {
			why = " (" + why + ")"
		}
		switch {
		case state.Open:
			s.add(WrongExample, e.path, "at %s open is true: from %s to %s%s", at, stamp(state.Opened, loc), stamp(state.Close, loc), why)
		case state.NextOpen.IsZero():
			s.add(WrongExample, e.path, "at %s open is false, and it does not open again%s", at, why)
		default:
			s.add(WrongExample, e.path, "at %s open is false: it opens at %s%s", at, stamp(state.NextOpen, loc), why)
		}
	}
}

// explainWindow is what a policy with that window alone says.
func explainWindow(w window.Window) func(time.Time) string {
	return func(at time.Time) string {
		return window.Calendar{Allows: []window.Window{w}}.At(at).Any().Explain()
	}
}

// explainFreeze is what a policy that is always open says of a freeze that is
// in force. Of one that is not it says nothing.
func explainFreeze(f window.Freeze) func(time.Time) string {
	return func(at time.Time) string {
		if s := (window.Calendar{Always: true, Freezes: []window.Freeze{f}}).At(at).Any(); s.Frozen {
			return s.Explain()
		}
		return ""
	}
}

func stamp(t time.Time, loc *time.Location) string {
	return t.In(loc).Format(time.RFC3339)
}

// readSelector reads a label selector. An empty one selects everything, which
// is never what somebody who writes one means.
func readSelector(parent *fields, name string) (labels.Selector, bool) {
	f := parent.object(name)
	if f == nil {
		return nil, !parent.has(name)
	}
	before := len(f.subject.report.problems)
	var s metav1.LabelSelector
	if m := f.object("matchLabels"); m != nil {
		s.MatchLabels = map[string]string{}
		for key := range m.values {
			s.MatchLabels[key] = m.text(key)
		}
	}
	for _, e := range f.objects("matchExpressions") {
		s.MatchExpressions = append(s.MatchExpressions, readRequirement(e))
	}
	f.done()
	if len(f.subject.report.problems) > before {
		return nil, false
	}
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		parent.errorf(name, "is empty: drop it, or say which with matchLabels or matchExpressions")
		return nil, false
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		parent.errorf(name, "%s", shorten(err.Error()))
		return nil, false
	}
	return selector, true
}

func readRequirement(f *fields) metav1.LabelSelectorRequirement {
	r := metav1.LabelSelectorRequirement{
		Key:      f.text("key"),
		Operator: oneOf(f, "operator", metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
	}
	for i, v := range f.list("values") {
		s, ok := v.(string)
		if !ok {
			f.errorf(fmt.Sprintf("values[%d]", i), "is %s, not a string", describe(v))
			continue
		}
		r.Values = append(r.Values, s)
	}
	if f.blank("key") {
		f.errorf("key", "is required")
	}
	if f.blank("operator") {
		f.errorf("operator", "is required: In, NotIn, Exists or DoesNotExist")
	}
	f.done()
	return r
}
