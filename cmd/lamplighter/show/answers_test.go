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
