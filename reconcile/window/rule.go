// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

const (
	// maxOccurrences of the events that end, in one calendar.
	maxOccurrences = 5000
	// maxRuleSteps bounds how many days, weeks, months and years the rules of one
	// calendar are followed through when it is read.
	maxRuleSteps = 50_000
	// stepsOfYearly is what it costs to find the days of a rule without end.
	stepsOfYearly = 200
	// stepsOfNever is what it costs to find that a rule never comes.
	stepsOfNever = maxRuleSteps / 2
	// yearsOfRule is how long a yearly rule that ends may go on, and
	// yearsOfOften one that repeats more often.
	yearsOfRule, yearsOfOften = 100, 10
	// maxPerYear is on how many days of a year all rules without end may come.
	maxPerYear = 1000
	// maxInterval of a rule without end: with 29 February it comes in 28 years.
	maxInterval = 4
)

// yearly repeats an event for ever, on the same days in all years of a kind.
type yearly struct {
	text     string
	interval int
	days     map[yearKind][]int // of the year, from 0
}

// yearKind is all that a yearly rule can see of a year.
type yearKind struct {
	leap  bool
	first time.Weekday
}

func kindOf(year int) yearKind {
	first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	return yearKind{leap: first.AddDate(0, 0, 365).Year() == year, first: first.Weekday()}
}

// in yields the wall-clock times of a year at which the rule repeats an event
// that happened first then.
func (r *yearly) in(year int, first time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if year < first.Year() || (year-first.Year())%r.interval != 0 {
			return
		}
		for _, d := range r.days[kindOf(year)] {
			at := time.Date(year, 1, 1+d, first.Hour(), first.Minute(), first.Second(), 0, time.UTC)
			if at.After(first) && !yield(at) {
				return
			}
		}
	}
}

// ruleReader reads the rules of one calendar.
type ruleReader struct {
	steps   int
	perYear int
	byText  map[string]*yearly
}

// readRule reads an RRULE. Its error says what is not read.
func readRule(text string) (option *rrule.ROption, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q cannot be read: %v", clip(text), p)
		}
	}()
	if len(text) > maxSchedule {
		return nil, fmt.Errorf("is %d characters long, at most %d are read", len(text), maxSchedule)
	}
	option, err = rrule.StrToROption(strings.ToUpper(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q cannot be read: %w", clip(text), err)
	case option.Freq > rrule.DAILY:
		return nil, fmt.Errorf("FREQ=%s is not read: FREQ=DAILY is the most often, or write a Freeze with a schedule", option.Freq)
	case len(option.Byhour)+len(option.Byminute)+len(option.Bysecond)+len(option.Byeaster) > 0 || !option.Dtstart.IsZero():
		return nil, fmt.Errorf("%q is not read: BYMONTH, BYMONTHDAY, BYDAY, BYYEARDAY, BYWEEKNO and BYSETPOS are", clip(text))
	case option.Freq >= rrule.WEEKLY && len(option.Bymonth)+len(option.Bymonthday)+len(option.Byyearday)+len(option.Byweekno)+len(option.Bysetpos) > 0:
		return nil, fmt.Errorf("FREQ=%s is read with BYDAY alone: write FREQ=YEARLY for days of some months", option.Freq)
	case option.Count > 0 && !option.Until.IsZero():
		return nil, errors.New("has both COUNT and UNTIL: keep one")
	case option.Interval > maxOccurrences:
		return nil, fmt.Errorf("INTERVAL=%d is more than %d", option.Interval, maxOccurrences)
	case option.Interval < 0 || option.Count < 0 || strings.Contains(strings.ToUpper(text), "COUNT=0"):
		return nil, fmt.Errorf("%q has a number below 1", clip(text))
	}
	option.Interval = max(option.Interval, 1)
	return option, nil
}

// follow lists the times, from first on, of a rule that ends.
func (rr *ruleReader) follow(o *rrule.ROption, first time.Time) ([]time.Time, error) {
	years, perYear := yearsOfOften, map[rrule.Frequency]int{rrule.YEARLY: 1, rrule.MONTHLY: 12, rrule.WEEKLY: 53, rrule.DAILY: 366}[o.Freq]
	if o.Freq == rrule.YEARLY {
		years = yearsOfRule
	}
	last := first.AddDate(years, 0, 0)
	switch {
	case o.Until.After(last):
		return nil, fmt.Errorf("goes on for more than %d years: shorten UNTIL", years)
	case o.Count > maxOccurrences:
		return nil, fmt.Errorf("COUNT=%d is more than %d", o.Count, maxOccurrences)
	case !o.Until.IsZero():
		last = o.Until
	}
	rr.steps += (last.Year() - first.Year() + 1) * perYear
	if rr.steps > maxRuleSteps {
		return nil, errors.New("is one of too many to follow: write the dates")
	}
	bounded := *o
	bounded.Dtstart, bounded.Until = first, last
	list, err := times(bounded)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		rr.steps += stepsOfNever
		return nil, fmt.Errorf("%q never comes", o.RRuleString())
	case len(list) < o.Count:
		return nil, fmt.Errorf("does not come to COUNT=%d within %d years", o.Count, years)
	}
	return list, nil
}

// repeat is a rule without end.
func (rr *ruleReader) repeat(o *rrule.ROption, first time.Time) (*yearly, error) {
	switch {
	case o.Freq != rrule.YEARLY:
		return nil, fmt.Errorf("FREQ=%s without UNTIL or COUNT is not read: give it an end, or write a Freeze with a schedule", o.Freq)
	case o.Interval > maxInterval:
		return nil, fmt.Errorf("INTERVAL=%d without UNTIL or COUNT is not read: at most %d, or give it an end", o.Interval, maxInterval)
	}
	full := explicit(*o, first)
	text := full.RRuleString()
	if r := rr.byText[text]; r != nil {
		return r, rr.count(r)
	}
	r := &yearly{text: text, interval: o.Interval, days: map[yearKind][]int{}}
	if rr.steps += stepsOfYearly; rr.steps > maxRuleSteps {
		return nil, errors.New("is one of too many to follow: write the dates")
	}
	const anyYear, kinds = 1972, 28 // the last that the library knows are of the same kinds
	comes := false
	for year := anyYear; year < anyYear+kinds; year++ {
		kind := kindOf(year)
		if _, ok := r.days[kind]; ok {
			continue
		}
		list, err := within(full, year)
		if err != nil {
			return nil, err
		}
		r.days[kind] = []int{}
		for _, at := range list {
			r.days[kind] = append(r.days[kind], at.YearDay()-1)
		}
		comes = comes || len(list) > 0
	}
	if !comes {
		rr.steps += stepsOfNever
		return nil, fmt.Errorf("%q never comes", o.RRuleString())
	}
	rr.byText[text] = r
	return r, rr.count(r)
}

// count bounds what has to be looked at for one answer.
func (rr *ruleReader) count(r *yearly) error {
	most := 0
	for _, days := range r.days {
		most = max(most, len(days))
	}
	if rr.perYear += most; rr.perYear > maxPerYear {
		return fmt.Errorf("comes %d times a year, with the rules before more than %d: write a Freeze with a schedule", most, maxPerYear)
	}
	return nil
}

// within lists the days of one year that a yearly rule matches.
func within(o rrule.ROption, year int) ([]time.Time, error) {
	first, last := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC)
	if isDate(o) {
		at := time.Date(year, time.Month(o.Bymonth[0]), o.Bymonthday[0], 0, 0, 0, 0, time.UTC)
		if at.Day() != o.Bymonthday[0] {
			return nil, nil // 30 February
		}
		return []time.Time{at}, nil
	}
	o.Interval, o.Dtstart, o.Until = 1, first, last
	return times(o)
}

// isDate reports whether a yearly rule names one date, as most do.
func isDate(o rrule.ROption) bool {
	return len(o.Bymonth) == 1 && len(o.Bymonthday) == 1 && o.Bymonth[0] >= 1 && o.Bymonth[0] <= 12 && o.Bymonthday[0] >= 1 && o.Bymonthday[0] <= 31 &&
		len(o.Byweekday)+len(o.Byweekno)+len(o.Byyearday)+len(o.Bysetpos) == 0
}

// explicit says in the rule what it takes from the start of its event.
func explicit(o rrule.ROption, first time.Time) rrule.ROption {
	if len(o.Byweekno)+len(o.Byyearday)+len(o.Bymonthday)+len(o.Byweekday) > 0 {
		return o
	}
	if len(o.Bymonth) == 0 {
		o.Bymonth = []int{int(first.Month())}
	}
	o.Bymonthday = []int{first.Day()}
	return o
}

const (
	// lastOfLibrary is the year in which the library gives up. It heeds UNTIL
	// only when it has found something.
	lastOfLibrary = 9999
	// cycle of years after which all dates fall on the same weekdays again.
	cycle = 400
)

// times asks the library for the times of a rule until a bound, whose panics
// are errors here. It is asked for the last years that it knows, and for those
// of the same kinds as the ones that are meant, so that it does not look far.
func times(o rrule.ROption) (list []time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q cannot be followed: %v", o.RRuleString(), p)
		}
	}()
	later := (lastOfLibrary - o.Until.Year()) / cycle * cycle
	o.Dtstart, o.Until = o.Dtstart.AddDate(later, 0, 0), o.Until.AddDate(later, 0, 0)
	r, err := rrule.NewRRule(o)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", o.RRuleString(), err)
	}
	next := r.Iterator()
	for {
		at, ok := next()
		switch {
		case !ok:
			return slices.Compact(list), nil
		case len(list) == maxOccurrences:
			return nil, fmt.Errorf("comes more than %d times", maxOccurrences)
		}
		list = append(list, at.AddDate(-later, 0, 0))
	}
}
