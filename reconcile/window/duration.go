// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	days   = regexp.MustCompile(`^([0-9]{1,6})d$`)
	digits = regexp.MustCompile(`^[+-]?[0-9]+$`)
)

// ParseDuration reads an elapsed time greater than zero, such as "90m" or
// "1h30m". The error says what to write instead.
func ParseDuration(s string) (time.Duration, error) {
	switch {
	case s == "":
		return 0, errors.New("is required: elapsed time such as 6h or 90m")
	case digits.MatchString(s):
		return 0, fmt.Errorf("%q has no unit: write hours or minutes, such as 6h or 90m", clip(s))
	}
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: write hours and minutes, such as 6h or 1h30m", clip(s))
		}
		return 0, fmt.Errorf("%q counts in days, which differ in length: write %dh", s, 24*n)
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: write hours and minutes, such as 6h or 1h30m", clip(s))
	case d <= 0:
		return 0, fmt.Errorf("%q is not longer than zero", clip(s))
	}
	return d, nil
}

// parseWindowDuration reads how long a window stays open: whole minutes,
// because a schedule has no finer grain.
func parseWindowDuration(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err == nil && d%time.Minute != 0 {
		return 0, fmt.Errorf("%q is not whole minutes", clip(s))
	}
	return d, err
}

// FormatDuration writes a duration as people do: "6h" and not "6h0m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
