// SPDX-License-Identifier: Apache-2.0

package window

import "testing"

func TestKeptOpen(t *testing.T) {
	c := Calendar{
		Allows:  []Window{span(t, "night", "2026-03-02T22:00:00Z", "2026-03-03T04:00:00Z"), span(t, "next", "2026-03-03T22:00:00Z", "2026-03-04T04:00:00Z")},
		Freezes: []Freeze{{Window: span(t, "audit", "2026-03-03T01:00:00Z", "2026-03-03T03:00:00Z")}},
	}
	const night, next = "2026-03-02T22:00:00Z", "2026-03-03T22:00:00Z"
	for name, test := range map[string]struct{ now, until, close, nextOpen string }{
		"while it is shut":                {"2026-03-02T12:00:00Z", "2026-03-02T14:00:00Z", "2026-03-02T14:00:00Z", night},
		"until a window that is open":     {"2026-03-02T21:00:00Z", "2026-03-02T23:00:00Z", "2026-03-03T01:00:00Z", "2026-03-03T03:00:00Z"},
		"until the instant it opens":      {"2026-03-02T21:00:00Z", night, "2026-03-03T01:00:00Z", "2026-03-03T03:00:00Z"},
		"in a freeze":                     {"2026-03-03T01:30:00Z", "2026-03-03T02:30:00Z", "2026-03-03T02:30:00Z", "2026-03-03T03:00:00Z"},
		"across a freeze":                 {"2026-03-03T00:30:00Z", "2026-03-03T03:30:00Z", "2026-03-03T04:00:00Z", next},
		"until after every window":        {"2026-03-04T03:00:00Z", "2026-03-04T05:00:00Z", "2026-03-04T05:00:00Z", ""},
		"until the instant a freeze ends": {"2026-03-03T01:30:00Z", "2026-03-03T03:00:00Z", "2026-03-03T04:00:00Z", next},
	} {
		t.Run(name, func(t *testing.T) {
			now, until := at(t, test.now), at(t, test.until)
			got := c.At(until).Any().KeptOpen(now, "proceed")
			want := State{Open: true, By: "proceed", Close: at(t, test.close), ValidUntil: until}
			if test.nextOpen != "" {
				want.NextOpen = at(t, test.nextOpen)
			}
			if !got.Equal(want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	if got := (Calendar{Always: true}).At(at(t, night)).Any().KeptOpen(at(t, "2026-03-02T21:00:00Z"), "proceed"); !got.Open || !got.Close.IsZero() {
		t.Errorf("until it is always open: got %+v, want it never to close", got)
	}
}

func TestExplainOverrides(t *testing.T) {
	now, until := at(t, "2026-03-02T21:00:00Z"), at(t, "2026-03-02T23:00:00Z")
	if got, want := (Calendar{}).At(until).Any().KeptOpen(now, "proceed").Explain(), "kept open by proceed until 23:00 UTC"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := Doubted("this machine's clock is 1m0s ahead")
	if got, want := s.Explain(), "shut: this machine's clock is 1m0s ahead"; s.Open || got != want {
		t.Errorf("got %q and open %t, want %q", got, s.Open, want)
	}
}
