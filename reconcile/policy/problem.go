// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Level is how bad a problem is.
type Level string

const (
	// Error: the set cannot be used.
	Error Level = "Error"
	// Warning: it can, and somebody may be surprised.
	Warning Level = "Warning"
)

// Code is what kind of problem it is. A code never changes its meaning.
type Code string

const (
	// Invalid: a policy kind has a field that is not known, a value that cannot be
	// read, or a reference that leads nowhere.
	Invalid Code = "Invalid"
	// WrongExample: an example of a window or freeze does not hold.
	WrongExample Code = "WrongExample"
	// NotOnDelete: Kubernetes itself restarts a DaemonSet that is in a policy.
	NotOnDelete Code = "NotOnDelete"
	// InvalidDaemonSet: what policies need to know of a DaemonSet cannot be read.
	// Parse takes DaemonSets that have been read, and never says it.
	InvalidDaemonSet Code = "InvalidDaemonSet"
	// InvalidObject: no API server would take an object. Parse sees policy kinds
	// only, and never says it.
	InvalidObject Code = "InvalidObject"
	// Encrypted: an object holds what SOPS has encrypted. Parse sees policy kinds only,
	// and never says it.
	Encrypted Code = "Encrypted"
	// Surprising: a policy kind says what somebody may not expect.
	Surprising Code = "Surprising"
	// Ungoverned: a DaemonSet is in no policy.
	Ungoverned Code = "Ungoverned"
)

// level of every problem with the code.
func (c Code) level() Level {
	if c == Surprising || c == Ungoverned {
		return Warning
	}
	return Error
}

// Problem is one thing that is wrong with one field, in words that say what to
// write instead.
type Problem struct {
	Level Level
	Code  Code
	// File is relative to the root of the tree; empty when not known.
	File string
	// Line is where in File the object begins; 0 when not known.
	Line int
	// Object is "Kind/name", or "Kind/namespace/name".
	Object string
	// Field is a path such as "spec.windows[0]"; empty for the whole object.
	Field   string
	Message string
}

// String is one line: "file: line 7: Kind/name: field: message". Names may hold anything,
// so what would break the line is replaced.
func (p Problem) String() string {
	var parts []string
	for _, s := range []string{p.where(), p.Object, p.Field, p.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Map(printable, strings.Join(parts, ": "))
}

func (p Problem) where() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s: line %d", p.File, p.Line)
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

func compareProblems(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Object, b.Object),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Level, b.Level),
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Message, b.Message),
	)
}

// report collects problems.
type report struct {
	problems []Problem
}

// sorted is every problem once, in a fixed order.
func (r *report) sorted() []Problem {
	slices.SortFunc(r.problems, compareProblems)
	return slices.Compact(r.problems)
}

// subject is the object that problems are about.
type subject struct {
	report *report
	file   string
	line   int
	object string
}

func (s subject) errorf(field, format string, args ...any) {
	s.add(Invalid, field, format, args...)
}

func (s subject) warnf(field, format string, args ...any) {
	s.add(Surprising, field, format, args...)
}

func (s subject) add(code Code, field, format string, args ...any) {
	s.report.problems = append(s.report.problems, Problem{
		Level: code.level(), Code: code, File: s.file, Line: s.line, Object: s.object, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

func hasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Level == Error })
}
