// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"lamplighter.dev/reconcile/window"
)

// fields reads one mapping strictly: each read reports a wrong type, and done
// reports what nobody asked for. A null is the same as no field.
type fields struct {
	subject subject
	path    string
	values  map[string]any
	asked   []string
}

func newFields(s subject, path string, values map[string]any) *fields {
	return &fields{subject: s, path: path, values: values}
}

// at is the full path of one field.
func (f *fields) at(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "." + name
}

func (f *fields) errorf(name, format string, args ...any) {
	f.subject.errorf(f.at(name), format, args...)
}

func (f *fields) take(name string) (any, bool) {
	f.asked = append(f.asked, name)
	v := f.values[name]
	return v, v != nil
}

func (f *fields) has(name string) bool {
	return f.values[name] != nil
}

// blank: the field is missing, or empty text.
func (f *fields) blank(name string) bool {
	return f.values[name] == nil || f.values[name] == ""
}

// done reports the fields that were not read.
func (f *fields) done() {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !slices.Contains(f.asked, name) {
			f.errorf(name, "is not a known field%s", didYouMean(name, f.asked, "drop it"))
		}
	}
}

func (f *fields) text(name string) string {
	v, ok := f.take(name)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		f.errorf(name, "is %s, not a string", describe(v))
	}
	return s
}

func (f *fields) flag(name string) (value, set bool) {
	v, ok := f.take(name)
	if !ok {
		return false, false
	}
	b, ok := v.(bool)
	if !ok {
		f.errorf(name, "is %s: write true or false", describe(v))
	}
	return b, ok
}

// limits of a whole number, both included.
type limits struct{ low, high int64 }

func (f *fields) number(name string, byDefault int64, l limits) int64 {
	v, ok := f.take(name)
	if !ok {
		return byDefault
	}
	n, ok := wholeNumber(v)
	if !ok || n < l.low || n > l.high {
		f.errorf(name, "is %s: write a whole number from %d to %d", describe(v), l.low, l.high)
		return byDefault
	}
	return n
}

func (f *fields) duration(name string, byDefault time.Duration) time.Duration {
	if !f.has(name) {
		f.take(name)
		return byDefault
	}
	text, ok := f.durationText(name)
	if !ok {
		return byDefault
	}
	d, err := window.ParseDuration(text)
	if err != nil {
		f.errorf(name, "%s", err)
		return byDefault
	}
	return d
}

// durationText reads a duration without understanding it. A bare number goes
// to the parser, which says what it lacks.
func (f *fields) durationText(name string) (string, bool) {
	v, ok := f.take(name)
	if !ok {
		return "", true
	}
	if s, ok := v.(string); ok {
		return s, true
	}
	if n, ok := wholeNumber(v); ok {
		return strconv.FormatInt(n, 10), true
	}
	f.errorf(name, "is %s: write hours and minutes, such as 6h or 1h30m", describe(v))
	return "", false
}

// instant reads a timestamp, which needs an offset: without one it would be
// another time on every machine.
func (f *fields) instant(name string) (time.Time, bool) {
	s := f.text(name)
	if s == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	switch year := t.UTC().Year(); {
	case err != nil:
	case year < window.FirstYear || year > window.LastYear:
		f.errorf(name, "%q is outside the years %d to %d", s, window.FirstYear, window.LastYear)
		return time.Time{}, false
	default:
		return fixedZone(t), true
	}
	if _, err := time.Parse("2006-01-02T15:04:05", s); err == nil {
		f.errorf(name, "%q has no offset: write %sZ, or +01:00 and such in place of Z", s, s)
	} else {
		f.errorf(name, "%q is not a timestamp with offset: write 2026-12-05T22:00:00+01:00 or 2026-12-05T21:00:00Z", shorten(s))
	}
	return time.Time{}, false
}

// fixedZone keeps the offset as written. Parsing may take the zone of the
// machine in its place when they agree.
func fixedZone(t time.Time) time.Time {
	_, offset := t.Zone()
	if offset == 0 {
		return t.UTC()
	}
	return t.In(time.FixedZone("", offset))
}

func (f *fields) object(name string) *fields {
	v, ok := f.take(name)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		f.errorf(name, "is %s, not a mapping", describe(v))
		return nil
	}
	return newFields(f.subject, f.at(name), m)
}

func (f *fields) list(name string) []any {
	v, ok := f.take(name)
	if !ok {
		return nil
	}
	l, ok := v.([]any)
	if !ok {
		f.errorf(name, "is %s, not a list", describe(v))
	}
	return l
}

// atLeastOne reports a list that is missing or empty.
func (f *fields) atLeastOne(name, what string) *fields {
	v, isList := f.values[name].([]any)
	switch {
	case !f.has(name):
		f.errorf(name, "is required: %s", what)
	case isList && len(v) == 0:
		f.errorf(name, "is empty: %s", what)
	}
	return f
}

// objects reads a list of mappings; what is none is reported and left out.
func (f *fields) objects(name string) []*fields {
	var out []*fields
	for i, v := range f.list(name) {
		at := fmt.Sprintf("%s[%d]", name, i)
		if m, ok := v.(map[string]any); ok {
			out = append(out, newFields(f.subject, f.at(at), m))
		} else {
			f.errorf(at, "is %s, not a mapping", describe(v))
		}
	}
	return out
}

// reference is a name in a list, with the path that it was read from.
type reference struct {
	name, path string
}

// references reads a list of names; what is none is reported and left out.
func (f *fields) references(name string) []reference {
	var out []reference
	seen := map[string]bool{}
	for i, v := range f.list(name) {
		at := fmt.Sprintf("%s[%d]", name, i)
		s, ok := v.(string)
		switch {
		case !ok || s == "":
			f.errorf(at, "is %s, not a name", describe(v))
		case seen[s]:
			f.errorf(at, "%q is listed twice", s)
		default:
			seen[s] = true
			out = append(out, reference{name: s, path: f.at(at)})
		}
	}
	return out
}

// oneOf reads a word from a closed set.
func oneOf[T ~string](f *fields, name string, byDefault T, others ...T) T {
	s := T(f.text(name))
	if s == "" || s == byDefault {
		return byDefault
	}
	words := []string{string(byDefault)}
	for _, o := range others {
		if s == o {
			return s
		}
		words = append(words, string(o))
	}
	f.errorf(name, "%q is not known%s", shorten(string(s)), didYouMean(string(s), words, "write "+oneOfWords(words)))
	return byDefault
}

// wholeNumber accepts what decoders of YAML and JSON make of one.
func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// describe names a value in a message, never at length.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(shorten(v))
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	}
	if n, ok := wholeNumber(v); ok {
		return fmt.Sprintf("the number %d", n)
	}
	return "the number " + shorten(fmt.Sprint(v))
}
