// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-ical"
)

const (
	// maxICS is how long the text of a calendar may be.
	maxICS = 1 << 20
	// maxEvents in one calendar.
	maxEvents = 2000
	// maxPropertyHead bounds what stands before the value of a line.
	maxPropertyHead = 1000
	// maxSummary is how much of a name is kept, in bytes.
	maxSummary = 100
	// maxLength of one event; a shorter one that repeats for ever has to end
	// before it comes again.
	maxLength = 10 * 366 * day
)

var errNoEvent = errors.New("has no event: a calendar without one would freeze nothing")

// readICS reads the events of a calendar. Times without a zone, and days, are
// those of zone. It lists everything that is wrong.
func readICS(text string, zone *time.Location) ([]event, []error) {
	components, err := decodeICS(text)
	if err != nil {
		return nil, []error{err}
	}
	r := &icsReader{zone: zone, rules: ruleReader{byText: map[string]*yearly{}}}
	for _, c := range components {
		for _, child := range c.Children {
			if child.Name == ical.CompEvent {
				r.add(child)
			}
		}
	}
	return r.result()
}

// decodeICS reads the calendars of a file. What the decoder behind it cannot
// stand is refused before.
func decodeICS(text string) (list []*ical.Component, err error) {
	defer func() {
		if p := recover(); p != nil {
			list, err = nil, fmt.Errorf("is not an iCalendar file: %v", p)
		}
	}()
	text = strings.TrimPrefix(text, "\ufeff")
	switch {
	case len(text) > maxICS:
		return nil, fmt.Errorf("is larger than %d KiB", maxICS>>10)
	case strings.TrimSpace(text) == "":
		return nil, errNoEvent
	}
	if err := checkLines(text); err != nil {
		return nil, err
	}
	for d := ical.NewDecoder(strings.NewReader(text)); ; {
		c, err := d.Decode()
		switch {
		case err == nil:
			list = append(list, c.Component)
		case errors.Is(err, io.EOF) && len(list) == strings.Count(strings.ToUpper(text), "BEGIN:VCALENDAR"):
			return list, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("is not a whole iCalendar file: it ends before END:VCALENDAR")
		default:
			return nil, fmt.Errorf("is not an iCalendar file: %s", clip(strings.TrimPrefix(err.Error(), "ical: ")))
		}
	}
}

// checkLines refuses lines that are not a name, parameters, a colon and a value.
func checkLines(text string) error {
	head, quoted, valued, begun := 0, false, true, 0
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if n > 1 && line != "" && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		} else {
			if !valued {
				return noColon(begun)
			}
			head, quoted, valued, begun = 0, false, line == "", n
		}
		for i := 0; i < len(line) && !valued; i++ {
			quoted = quoted != (line[i] == '"')
			valued = line[i] == ':' && !quoted
			if head++; head > maxPropertyHead {
				return fmt.Errorf("line %d is not one of an iCalendar file: it has no value", begun)
			}
		}
	}
	if !valued {
		return noColon(begun)
	}
	return nil
}

func noColon(line int) error {
	return fmt.Errorf("line %d is not one of an iCalendar file: it has no colon", line)
}
