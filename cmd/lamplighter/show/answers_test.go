// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"

	"lamplighter.dev/cmd/lamplighter/show"
)

func TestResumedSaysWhatGoesOn(t *testing.T) {
	for _, c := range []struct {
		answer show.Resumed
		want   string
	}{
		{show.Resumed{Policy: "network"}, "policy network: 0 failures acknowledged\n"},
		{show.Resumed{Policy: "network", Acknowledged: 1, Unpaused: true}, "policy network: 1 failure acknowledged, no longer paused\n"},
		{show.Resumed{Policy: "network", Unmarked: []string{"agents/cni"}, Retried: []string{"a", "b"}},
			"policy network: 0 failures acknowledged, tries again what Git has of agents/cni, tries 2 nodes again at once\n"},
		{show.Resumed{Policy: "network", Acknowledged: 1, KeptSlots: []string{"a"}},
			"policy network: 1 failure acknowledged\npolicy network: a has failed and keeps its slot (mend it, or commit another version; resume frees no slot)\n"},
		{show.Resumed{Policy: "network", KeptSlots: []string{"a", "b", "c"}},
			"policy network: 0 failures acknowledged\npolicy network: each of a, b, c has failed and keeps its slot (mend it, or commit another version; resume frees no slot)\n"},
		{show.Resumed{Policy: "network", KeptSlots: []string{"a", "b", "c", "d", "e"}},
			"policy network: 0 failures acknowledged\npolicy network: each of a, b, c and 2 more has failed and keeps its slot (mend it, or commit another version; resume frees no slot)\n"},
	} {
		var b strings.Builder
		if err := show.WriteResumed(&b, c.answer); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
