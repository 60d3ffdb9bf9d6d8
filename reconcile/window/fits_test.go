// SPDX-License-Identifier: Apache-2.0

package window

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

func TestFits(t *testing.T) {
	nightly := build(t, "nightly", "UTC", "0 22 * * *", "2h")
	later := build(t, "later", "UTC", "0 0 * * *", "2h")
	weekly := build(t, "weekly", "UTC", "0 8 * * 6", "6h")
	yearly := build(t, "yearly", "UTC", "0 0 1 12 *", "24h")
	often := build(t, "often", "UTC", "*/20 * * * *", "5m")
	gpu := weekly
	gpu.Selector = labels.SelectorFromSet(labels.Set{"pool": "gpu"})
	frozen := Freeze{Window: build(t, "saturdays", "UTC", "0 0 * * 6", "12h")}
	const now = "2026-11-30T21:00:00Z" // a Monday
	for name, tt := range map[string]struct {
		calendar Calendar
		now      string
		node     labels.Set
		length   time.Duration
		found    bool
		until    string
	}{
		"always open":                      {Calendar{Always: true}, now, nil, 100 * time.Hour, true, ""},
		"exactly as long":                  {Calendar{Allows: []Window{nightly}}, now, nil, 2 * time.Hour, true, ""},
		"longer than each":                 {Calendar{Allows: []Window{nightly}}, now, nil, 2*time.Hour + 1, false, "2028-04-25T00:00:00Z"},
		"two windows that touch are one":   {Calendar{Allows: []Window{nightly, later}}, now, nil, 4 * time.Hour, true, ""},
		"one of several is long enough":    {Calendar{Allows: []Window{nightly, weekly}}, now, nil, 6 * time.Hour, true, ""},
		"a long one in a year":             {Calendar{Allows: []Window{nightly, yearly}}, "2026-12-02T02:00:00Z", nil, 20 * time.Hour, true, ""},
		"a long one behind many short":     {Calendar{Allows: []Window{often, yearly}}, now, nil, 20 * time.Hour, true, ""},
		"for other nodes only":             {Calendar{Allows: []Window{nightly, gpu}}, now, labels.Set{"pool": "cpu"}, 6 * time.Hour, false, "2028-04-25T00:00:00Z"},
		"for this node":                    {Calendar{Allows: []Window{nightly, gpu}}, now, labels.Set{"pool": "gpu"}, 6 * time.Hour, true, ""},
		"a freeze cuts each":               {Calendar{Allows: []Window{weekly}, Freezes: []Freeze{frozen}}, now, nil, 3 * time.Hour, false, "2036-09-20T14:00:00Z"},
		"what a freeze leaves":             {Calendar{Allows: []Window{weekly}, Freezes: []Freeze{frozen}}, now, nil, 2 * time.Hour, true, ""},
		"what is left of an open one":      {Calendar{Allows: []Window{span(t, "w", now, "2026-12-01T00:00:00Z")}}, "2026-11-30T22:00:00Z", nil, 2 * time.Hour, true, ""},
		"not enough is left, and no other": {Calendar{Allows: []Window{span(t, "w", now, "2026-12-01T00:00:00Z")}}, "2026-11-30T22:00:01Z", nil, 2 * time.Hour, false, ""},
		"nothing opens":                    {Calendar{}, now, nil, time.Hour, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := Fit{Found: tt.found}
			if tt.until != "" {
				want.Until = at(t, tt.until)
			}
			m := tt.calendar.At(at(t, tt.now))
			for range 2 { // the second answer is remembered
				if got := m.Fits(tt.node, tt.length); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}
