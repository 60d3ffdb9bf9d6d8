// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"testing"
)

func TestComparisons(t *testing.T) {
	for text, holds := range map[string]map[float64]bool{
		"< 0.01": {0.009: true, 0.01: false, math.NaN(): false, math.Inf(1): false},
		"<=1":    {1: true, 1.1: false, math.Inf(-1): true},
		" > -1 ": {0: true, -1: false, math.Inf(1): true},
		">=1e3":  {1000: true, 999: false, math.NaN(): false},
		"== 0":   {0: true, 1: false, math.NaN(): false},
		"!= 0":   {1: true, 0: false, math.NaN(): false},
	} {
		c, err := ParseComparison(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for value, want := range holds {
			if got := c.Holds(value); got != want {
				t.Errorf("%v %s: got %t", value, text, got)
			}
		}
	}
	if (Comparison{}).Holds(0) {
		t.Error("the zero Comparison holds")
	}
}

// FuzzParseComparison: what is read is written so that it is read again.
func FuzzParseComparison(f *testing.F) {
	for _, seed := range []string{"< 0.01", ">=1", "==", "!= -1e9", "<< 1", "< 0x1p-2", "\t<\n1", "< 1 <"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseComparison(text)
		if err != nil {
			return
		}
		again, err := ParseComparison(c.String())
		if err != nil || again != c {
			t.Errorf("%q: read %v, then %v (%v)", text, c, again, err)
		}
	})
}
