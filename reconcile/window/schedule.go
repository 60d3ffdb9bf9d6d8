// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxSchedule is far longer than any schedule a person writes.
const maxSchedule = 256

// cronField is one of the five, with the largest value it takes.
type cronField struct {
	name string
	max  int
}

var cronFields = [...]cronField{
	{"minute", 59}, {"hour", 23}, {"day of month", 31}, {"month", 12}, {"day of week", 6},
}

// cronItem is what may stand between two commas. The parser behind it takes
// more ("*-5", "+5") and reads it as something else.
var cronItem = regexp.MustCompile(`^(?:[*?]|([0-9]+|[A-Za-z]{3})(?:-([0-9]+|[A-Za-z]{3}))?)(?:/([0-9]+))?$`)

// spelledOut gives the five fields for the words that other crons know.
var spelledOut = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseSchedule reads a five-field cron expression that fires at some time.
func parseSchedule(s string) (*ticks, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return nil, errors.New(`is required: five cron fields, such as "0 22 * * 1-5"`)
	case len(s) > maxSchedule:
		return nil, fmt.Errorf("is %d characters long, at most %d are read: write several windows", len(s), maxSchedule)
	case strings.Contains(s, "TZ="):
		return nil, fmt.Errorf("%q names a time zone: put it in timeZone", clip(s))
	case strings.HasPrefix(strings.TrimSpace(s), "@"):
		return nil, refuseWord(strings.TrimSpace(s))
	}
	fields := strings.Fields(s)
	if err := countFields(s, len(fields)); err != nil {
		return nil, err
	}
	for i, f := range fields {
		if err := checkField(cronFields[i], f); err != nil {
			return nil, err
		}
	}
	schedule, err := parseCron(strings.Join(fields, " "))
	if err != nil {
		return nil, err
	}
	k := ticksOf(schedule)
	for range k.after(anchor) {
		return &k, nil
	}
	return nil, fmt.Errorf("%q never fires: no such date comes in five years", clip(s))
}

// anchor begins a span of years with leap days in it, on which schedules are
// judged: whether one ever fires does not depend on when it is read.
var anchor = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func refuseWord(s string) error {
	word, _, _ := strings.Cut(s, " ")
	if fields, ok := spelledOut[strings.ToLower(word)]; ok {
		return fmt.Errorf("%q is not five cron fields: write %q", clip(s), fields)
	}
	return fmt.Errorf("%q has no fixed time to open at: write five cron fields, such as \"0 22 * * 1-5\"", clip(s))
}

func countFields(s string, n int) error {
	switch n {
	case len(cronFields):
		return nil
	case len(cronFields) + 1:
		return fmt.Errorf("%q has six fields: there are no seconds, drop the first", clip(s))
	}
	return fmt.Errorf("%q has %d fields, not five: minute, hour, day of month, month, day of week", clip(s), n)
}

func checkField(f cronField, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if err := checkItem(f, item); err != nil {
			return fmt.Errorf("%s %q %w", f.name, clip(text), err)
		}
	}
	return nil
}

func checkItem(f cronField, item string) error {
	m := cronItem.FindStringSubmatch(item)
	switch {
	case item == "":
		return errors.New("has an empty list item: drop the comma too many")
	case m == nil:
		return fmt.Errorf("has %q: only numbers, names, *, lists, ranges and steps are read", clip(item))
	case f.name == "day of week" && (m[1] == "7" || m[2] == "7"):
		return errors.New("has weekday 7: use 0 or SUN")
	}
	if m[3] != "" {
		step, err := strconv.Atoi(m[3])
		if err != nil || step < 1 || step > f.max {
			return fmt.Errorf("has a step of %s: it must be 1 to %d", m[3], f.max)
		}
	}
	return nil
}

// parseCron calls the cron parser, whose panics are errors here.
func parseCron(s string) (schedule *cron.SpecSchedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			schedule, err = nil, fmt.Errorf("%q cannot be read: %v", clip(s), p)
		}
	}()
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w%s", clip(s), err, hintFor(err))
	}
	schedule, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not five cron fields", clip(s))
	}
	schedule.Location = time.UTC
	return schedule, nil
}

func hintFor(err error) string {
	if strings.Contains(err.Error(), "beyond end of range") {
		return "; a range does not wrap: write two, such as 5-6,0-1"
	}
	return ""
}
