// SPDX-License-Identifier: Apache-2.0

package window

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxNormal is how long the normalised text of a calendar may be: it is kept
// with the policies in force.
const maxNormal = 128 << 10

// eventKey is what events have in common that are written as one.
type eventKey struct {
	summary, zone, rule string
	allDay              bool
	length              length
	first               int64 // with a rule
}

func (ev event) key() eventKey {
	k := eventKey{summary: ev.summary, allDay: ev.allDay, length: ev.length}
	if !ev.allDay {
		k.zone = ev.loc.String()
	}
	if ev.rule != nil {
		k.rule, k.first = ev.rule.text, ev.first.Unix()
	}
	return k
}

func (k eventKey) compare(o eventKey) int {
	return cmp.Or(
		cmp.Compare(k.summary, o.summary), cmp.Compare(k.zone, o.zone), cmp.Compare(k.rule, o.rule),
		cmp.Compare(k.length.days, o.length.days), cmp.Compare(k.length.elapsed, o.length.elapsed), cmp.Compare(k.first, o.first),
	)
}

// grouped unites the events that differ in their dates only, and sorts: the
// order of a file does not matter.
func grouped(list []event) []event {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b event) int { return a.key().compare(b.key()) })
	var out []event
	for _, ev := range list {
		if last := len(out) - 1; last >= 0 && ev.rule == nil && out[last].key() == ev.key() {
			out[last].starts = append(out[last].starts, ev.starts...)
			continue
		}
		ev.starts = slices.Clone(ev.starts)
		out = append(out, ev)
	}
	for i := range out {
		ev := &out[i]
		slices.SortFunc(ev.starts, time.Time.Compare)
		ev.starts = slices.Compact(ev.starts)
		slices.SortFunc(ev.except, time.Time.Compare)
		if ev.rule == nil {
			ev.first = ev.starts[0]
		}
	}
	return out
}

// writeICS writes events as Events reads them.
func writeICS(list []event) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\n")
	for _, ev := range list {
		b.WriteString("BEGIN:VEVENT\n")
		if ev.summary != "" {
			fmt.Fprintf(&b, "SUMMARY:%s\n", escaper.Replace(ev.summary))
		}
		ev.write(&b, "DTSTART", ev.first)
		fmt.Fprintf(&b, "DURATION:%s\n", ev.length)
		if ev.rule != nil {
			fmt.Fprintf(&b, "RRULE:%s\n", ev.rule.text)
		}
		except := ev.except
		i, ok := slices.BinarySearchFunc(ev.starts, ev.first, time.Time.Compare)
		more := ev.starts
		if ok {
			more = slices.Delete(slices.Clone(more), i, i+1)
		} else {
			except = append([]time.Time{ev.first}, except...)
		}
		ev.write(&b, "RDATE", more...)
		ev.write(&b, "EXDATE", except...)
		b.WriteString("END:VEVENT\n")
	}
	b.WriteString("END:VCALENDAR\n")
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `;`, `\;`)

// write writes a property with times; without any it writes nothing.
func (ev event) write(b *strings.Builder, name string, walls ...time.Time) {
	if len(walls) == 0 {
		return
	}
	b.WriteString(name)
	switch {
	case ev.allDay:
		b.WriteString(";VALUE=DATE")
	case ev.loc != time.UTC:
		fmt.Fprintf(b, ";TZID=%s", ev.loc)
	}
	for i, w := range walls {
		b.WriteByte(":,"[min(i, 1)])
		b.WriteString(stamp{wall: w, loc: ev.loc, allDay: ev.allDay}.String())
	}
	b.WriteByte('\n')
}

// String writes the length as a duration of a calendar.
func (l length) String() string {
	s := "P"
	if l.days > 0 || l.elapsed == 0 {
		s += fmt.Sprintf("%dD", l.days)
	}
	if l.elapsed > 0 {
		s += fmt.Sprintf("T%dS", l.elapsed/time.Second)
	}
	return s
}
