// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"unicode"

	"lamplighter.dev/inventory"
	"lamplighter.dev/render"
)

// subject is the object that a finding is about.
type subject struct {
	file   string
	line   int // where in file it begins; 0 when not known
	object string
}

func subjectOf(o render.Object) subject {
	return subject{file: o.File, line: o.Line, object: inventory.Format(inventory.IDOf(o.Unstructured))}
}

// find adds a finding. Names may hold anything, so what would break the line is
// replaced.
func (r *report) find(id ID, s subject, field, format string, args ...any) {
	c := catalogue[id]
	r.findings = append(r.findings, Finding{
		ID: id, Level: c.Level, File: printable(s.file), Line: s.line, Object: s.object, Field: printable(field),
		Message: printable(fmt.Sprintf(format, args...)), Remedy: c.Remedy,
	})
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
