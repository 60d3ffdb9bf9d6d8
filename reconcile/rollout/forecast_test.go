// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lamplighter.dev/reconcile/policy"
)

// checkForecast holds a forecast against what it was made from: visits to come
// start only while the hours of their policy allow it, no node is visited twice
// at once by one policy, what is said of the end fits together, and the order of
// the input does not matter.
func checkForecast(t reporter, obs Observed, policies []policy.UpgradePolicy, now time.Time) {
	t.Helper()
	f := Simulate(obs, policies, now)
	c := newCheck(obs, policies, now)
	until := map[visitKey]time.Time{}
	for _, v := range f.Visits {
		key := visitKey{v.Policy, v.Node}
		if last, again := until[key]; again && (last.IsZero() || v.Start.Before(last)) {
			t.Errorf("policy %s visits node %s at %s, and has not left it", v.Policy, v.Node, v.Start)
		}
		until[key] = v.End
		if !v.End.IsZero() && v.End.Before(v.Start) {
			t.Errorf("the visit of %s to %s ends at %s, before it starts", v.Policy, v.Node, v.End)
		}
		if !v.Start.After(now) {
			continue // it was open, or was found to be
		}
		if !NewHours(c.policies[v.Policy], obs.Ledger, obs.ClockProblem, v.Start).For(c.nodes[v.Node].Labels).Open {
			t.Errorf("I1: policy %s starts to visit %s at %s, and its window is shut", v.Policy, v.Node, v.Start)
		}
	}
	if len(f.Policies) != len(policies) {
		t.Errorf("%d outlooks for %d policies", len(f.Policies), len(policies))
	}
	for _, o := range f.Policies {
		if o.Stranded < 0 || o.Stranded > o.Remaining || (o.Remaining == 0) != (o.Never == "") && !o.Rough ||
			(!o.Done.IsZero() && o.Done.Before(now)) || (o.Openings > 0 && o.Stranded == 0) {
			t.Errorf("an outlook that does not fit together: %+v", o)
		}
	}
	r := rand.New(rand.NewPCG(2, uint64(len(obs.Pods))))
	obs.Nodes, obs.Pods, obs.DaemonSets = slices.Clone(obs.Nodes), slices.Clone(obs.Pods), slices.Clone(obs.DaemonSets)
	r.Shuffle(len(obs.Nodes), func(i, j int) { obs.Nodes[i], obs.Nodes[j] = obs.Nodes[j], obs.Nodes[i] })
	r.Shuffle(len(obs.Pods), func(i, j int) { obs.Pods[i], obs.Pods[j] = obs.Pods[j], obs.Pods[i] })
	r.Shuffle(len(obs.DaemonSets), func(i, j int) {
		obs.DaemonSets[i], obs.DaemonSets[j] = obs.DaemonSets[j], obs.DaemonSets[i]
	})
	if diff := cmp.Diff(f, Simulate(obs, policies, now), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the order of the input changes the forecast (-sorted +shuffled):\n%s", diff)
	}
}

// Where only half of what was measured fits, visits are foreseen to take as long.
func TestForecastTellsTheLengthThatItPlansWith(t *testing.T) {
	s := readScene(t, `now 2026-03-02T21:00:00Z
window one 2026-03-02T22:00:00Z 2026-03-02T22:04:00Z
window two 2026-03-03T22:00:00Z 2026-03-03T22:04:00Z
policy cni cni,csi windows=one,two
daemonset cni new proven
daemonset csi new proven
node a cni=old csi=old
node b cni=old csi=old
measured cni 3 1m
measured cni 2 7m`)
	f := Simulate(s.observed, s.policies, s.now)
	if got := f.Policies[0].Estimate; got != time.Minute {
		t.Errorf("a visit takes %s, want 1m", got)
	}
	for _, v := range f.Visits {
		if v.End.After(v.Closes) {
			t.Errorf("the visit to %s ends at %s, after its window", v.Node, v.End)
		}
	}
}
