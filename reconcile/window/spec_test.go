// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// TestRefusals gives one line for each pitfall; the words are in the catalogue
// of package policy.
func TestRefusals(t *testing.T) {
	good := RecurringSpec{Name: "w", TimeZone: "Europe/Berlin", Schedule: "0 22 * * 1-5", Duration: "6h"}
	tests := []struct {
		field string
		spec  RecurringSpec
	}{
		{"timeZone", RecurringSpec{TimeZone: ""}}, {"timeZone", RecurringSpec{TimeZone: "local"}},
		{"timeZone", RecurringSpec{TimeZone: "EST"}}, {"timeZone", RecurringSpec{TimeZone: "Nowhere/Land"}},
		{"timeZone", RecurringSpec{TimeZone: "right/UTC"}}, {"timeZone", RecurringSpec{TimeZone: "../etc/passwd"}},
		{"timeZone", RecurringSpec{TimeZone: "Europe/" + strings.Repeat("x", 100)}},
		{"schedule", RecurringSpec{Schedule: "TZ=UTC"}}, {"schedule", RecurringSpec{Schedule: "0 0 * *"}},
		{"schedule", RecurringSpec{Schedule: "0 0 0 * * *"}}, {"schedule", RecurringSpec{Schedule: "@every 1h"}},
		{"schedule", RecurringSpec{Schedule: "@weekly"}}, {"schedule", RecurringSpec{Schedule: ", * * * *"}},
		{"schedule", RecurringSpec{Schedule: "0 0 * * 0-7"}}, {"schedule", RecurringSpec{Schedule: "0 0 31 4,6,9,11 *"}},
		{"schedule", RecurringSpec{Schedule: "0 22-4 * * *"}}, {"schedule", RecurringSpec{Schedule: "*/0 * * * *"}},
		{"schedule", RecurringSpec{Schedule: strings.Repeat("0,", 300) + "0 0 * * *"}},
		{"schedule", RecurringSpec{Schedule: "*/2 * * * *", Duration: "1m"}},
		{"duration", RecurringSpec{Duration: "7d"}}, {"duration", RecurringSpec{Duration: "90s"}}, {"duration", RecurringSpec{Duration: "360"}},
		{"duration", RecurringSpec{Schedule: "0 * * * *", Duration: "1h"}},
		{"duration", RecurringSpec{Schedule: "0 0 * * 0", Duration: "168h"}},
		{"duration", RecurringSpec{Schedule: "0 0 29 2 *", Duration: "35064h"}},
	}
	for _, test := range tests {
		spec := good
		switch {
		case test.spec.TimeZone != "" || test.spec == RecurringSpec{}:
			spec.TimeZone = test.spec.TimeZone
		default:
			if test.spec.Schedule != "" {
				spec.Schedule = test.spec.Schedule
			}
			if test.spec.Duration != "" {
				spec.Duration = test.spec.Duration
			}
		}
		_, err := Recurring(spec)
		e, ok := errors.AsType[*SpecError](err)
		if !ok || len(e.Fields) != 1 || e.Fields[0].Field != test.field || !strings.HasPrefix(e.Error(), "window w: "+test.field+": ") {
			t.Errorf("%+v: %v, want one fault of %s", spec, err, test.field)
		}
	}
	if _, err := Recurring(RecurringSpec{}); err == nil || strings.Count(err.Error(), "is required") != 3 {
		t.Errorf("every field is told: %v", err)
	}
}

func TestLongestDurationsAreTaken(t *testing.T) {
	for _, spec := range []RecurringSpec{
		{TimeZone: "UTC", Schedule: "0 * * * *", Duration: "59m"},
		{TimeZone: "UTC", Schedule: "0 0 * * *", Duration: "1439m"},
		{TimeZone: "Europe/Berlin", Schedule: "0 0 * * 0", Duration: "167h"},
		{TimeZone: "Etc/UTC", Schedule: "0 0 * * 0-5", Duration: "24h"},
		{TimeZone: "UTC", Schedule: " 0  0 1 JAN ? ", Duration: "1.5h"},
	} {
		if w, err := Recurring(spec); err != nil || w.String() == "never" {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

func TestEqual(t *testing.T) {
	w := build(t, "w", "UTC", "0 22 * * *", "6h")
	gpu := w
	gpu.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	once := span(t, "w", "2026-12-05T22:00:00+01:00", "2026-12-06T04:00:00+01:00")
	for name, other := range map[string]Window{
		"another name": build(t, "x", "UTC", "0 22 * * *", "6h"), "another zone": build(t, "w", "Etc/UTC", "0 22 * * *", "6h"),
		"another time": build(t, "w", "UTC", "0 21 * * *", "6h"), "another length": build(t, "w", "UTC", "0 22 * * *", "5h"),
		"a selector": gpu, "a one-off": once, "zero": {Name: "w"},
	} {
		if w.Equal(other) || other.Equal(w) || !other.Equal(other) {
			t.Errorf("%s is equal", name)
		}
	}
	if !cmp.Equal(w, build(t, "w", "UTC", "0  22 * * *", "360m")) {
		t.Error("the same window differs")
	}
	if cmp.Equal(Freeze{Window: once, Reason: "a"}, Freeze{Window: once, Reason: "b"}) {
		t.Error("another reason is equal")
	}
}

func TestAccessors(t *testing.T) {
	berlin := build(t, "w", "Europe/Berlin", "0 2 1-7 * 0", "90m")
	once := span(t, "w", "2026-12-05T22:00:00+01:00", "2026-12-06T04:00:00+01:00")
	type facts struct {
		Text, Zone string
		Length     time.Duration
		EitherDay  bool
		Starts     int
	}
	now := at(t, "2026-01-01T00:00:00Z")
	for _, test := range []struct {
		w    Window
		want facts
	}{
		{berlin, facts{"0 2 1-7 * 0 Europe/Berlin for 1h30m", "Europe/Berlin", 90 * time.Minute, true, 3}},
		{build(t, "w", "UTC", "0 2 1-7 * *", "1h"), facts{"0 2 1-7 * * UTC for 1h", "UTC", time.Hour, false, 3}},
		{once, facts{"2026-12-05T22:00:00+01:00 to 2026-12-06T04:00:00+01:00", once.Location().String(), 6 * time.Hour, false, 1}},
		{Window{}, facts{"never", "UTC", 0, false, 0}},
	} {
		got := facts{test.w.String(), test.w.Location().String(), test.w.Length(), test.w.EitherDay(), len(test.w.Starts(now, 3))}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
	if len(berlin.Starts(now, 0)) != 0 || len(once.Starts(at(t, "2026-12-05T22:00:00Z"), 1)) != 0 {
		t.Error("openings that were not asked for")
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 10 * time.Minute: "10m",
		time.Hour + time.Second: "1h0m1s", 24 * time.Hour: "24h",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
