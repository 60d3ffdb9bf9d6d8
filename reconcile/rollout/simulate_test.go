// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"testing"
)

func formatForecast(f Forecast, s *scene) string {
	var b strings.Builder
	for _, v := range f.Visits {
		var names []string
		for _, d := range v.DaemonSets {
			names = append(names, d.Name)
		}
		end := "for ever"
		if !v.End.IsZero() {
			end = s.relative(v.End)
		}
		fmt.Fprintf(&b, "%s %s %s from %s to %s\n", v.Policy, v.Node, strings.Join(names, ","), s.relative(v.Start), end)
	}
	for _, p := range f.Policies {
		fmt.Fprintf(&b, "%s:", p.Name)
		if !p.Done.IsZero() {
			fmt.Fprintf(&b, " done %s", s.relative(p.Done))
		}
		if p.Remaining > 0 {
			fmt.Fprintf(&b, " %d remain", p.Remaining)
		}
		if p.Never != "" {
			fmt.Fprintf(&b, " (%s)", p.Never)
		}
		if p.Openings > 0 {
			fmt.Fprintf(&b, " needs %d more openings", p.Openings)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSimulate(t *testing.T) {
	tests := map[string]struct{ scene, want string }{
		"one after another": {`
policy cni cni
daemonset cni new
node a cni=old
node b cni=old
node c cni=new`, `
cni a cni from now to +5m0s
cni b cni from +5m0s to +10m0s
cni: done +10m0s`},
		"an unproven revision is tried first": {`
policy cni cni max=3
daemonset cni new
node a cni=old
node b cni=old
node c cni=old`, `
cni a cni from now to +5m0s
cni b cni from +5m0s to +10m0s
cni c cni from +5m0s to +10m0s
cni: done +10m0s`},
		"a visit of two takes as long as a visit": {`
policy cni cni,csi
daemonset cni new proven
daemonset csi new proven
node a cni=old csi=old
node b cni=old csi=new`, `
cni a cni,csi from now to +5m0s
cni b cni from +5m0s to +10m0s
cni: done +10m0s`},
		"what does not fit waits for the next window": {`
window one 2026-03-02T22:00:00Z 2026-03-02T22:14:00Z
window two 2026-03-03T22:00:00Z 2026-03-03T22:14:00Z
policy cni cni windows=one,two
daemonset cni new proven
node a cni=old
node b cni=old
node c cni=old`, `
cni a cni from now to +5m0s
cni b cni from +5m0s to +10m0s
cni c cni from +24h0m0s to +24h5m0s
cni: done +24h5m0s`},
		"a window too short": {`
window one 2026-03-02T22:00:00Z 2026-03-02T22:04:00Z
policy cni cni windows=one
daemonset cni new proven
node a cni=old`, `
cni: 1 remain (a visit takes 5m, and no window that long opens)`},
		"windows that are too few": {`
window one 2026-03-02T22:00:00Z 2026-03-02T22:14:00Z
policy cni cni windows=one
daemonset cni new proven
node a cni=old
node b cni=old
node c cni=old
node d cni=old
node e cni=old`, `
cni a cni from now to +5m0s
cni b cni from +5m0s to +10m0s
cni: done +10m0s 3 remain (no window opens again) needs 2 more openings`},
		"a percentage is of all nodes": {`
policy cni cni max=50%
daemonset cni new proven
node a cni=old
node b cni=old
node c cni=old
node d cni=new`, `
cni a cni from now to +5m0s
cni b cni from now to +5m0s
cni c cni from +5m0s to +10m0s
cni: done +10m0s`},
		"one wave after another, each with its number": {`
policy cni cni max=50% wave=canary(nodes=canary=true,max=1,soak=24h) wave=rest
daemonset cni new proven
node a cni=old
node b cni=old label=canary=true
node c cni=old label=canary=true
node d cni=old
node e cni=old
node f cni=old`, `
cni b cni from now to +5m0s
cni c cni from +5m0s to +10m0s
cni a cni from +24h10m0s to +24h15m0s
cni d cni from +24h10m0s to +24h15m0s
cni e cni from +24h15m0s to +24h20m0s
cni f cni from +24h15m0s to +24h20m0s
cni: done +24h20m0s`},
		"a wave that has settled soaks on": {`
policy cni cni wave=canary(nodes=canary=true,soak=24h) wave=rest
daemonset cni new proven
node a cni=old
node b cni=new(created=1h) label=canary=true
node c cni=new(created=3h) label=canary=true
settled cni canary 2h`, `
cni a cni from +22h0m0s to +22h5m0s
cni: done +22h5m0s`},
		"the first wave has no node": {`
policy cni cni wave=canary(nodes=canary=true) wave=rest
daemonset cni new proven
node a cni=old`, `
cni: 1 remain (wave canary: no node is in it, and none has settled before: label one, or drop the wave)`},
		"one zone after another": {`
policy cni cni max=2 topology=zone:1
daemonset cni new proven
node a cni=old label=zone=a
node b cni=old label=zone=b
node c cni=old label=zone=a
node d cni=old label=zone=b
node e cni=old label=zone=a`, `
cni a cni from now to +5m0s
cni c cni from now to +5m0s
cni e cni from +5m0s to +10m0s
cni b cni from +10m0s to +15m0s
cni d cni from +10m0s to +15m0s
cni: done +15m0s`},
		"what waits for somebody remains": {`
policy cni cni
daemonset cni new proven
node a cni=old
node b cni=old hold=disk
node c cni=old notready`, `
cni a cni from now to +5m0s
cni: done +5m0s 2 remain (all 2 nodes that remain wait for somebody)`},
		"a failed node holds the only slot": {`
policy cni cni failures=1
daemonset cni new proven
node a cni=new(created=1m,problem=CrashLoopBackOff)
node b cni=old
visit cni a cni:old>new(evicted=2m,replaced=1m)`, `
cni a cni from -1h0m0s to for ever
cni: 2 remain (the only slot is held by a node that waits for somebody, which is no halt with maxFailures 1: a: Failed: CrashLoopBackOff: container agent (mend it, or commit another version; resume frees no slot))`},
		"a template that waits": {`
now 2026-03-02T21:00:00Z
window one 2026-03-02T22:00:00Z 2026-03-02T23:00:00Z
policy cni cni windows=one
daemonset cni old pending
node a cni=old
node b cni=old`, `
cni a cni from +1h0m0s to +1h5m0s
cni b cni from +1h5m0s to +1h10m0s
cni: done +1h10m0s`},
		"policies take turns on a node": {`
policy cni cni
policy gpu gpu
daemonset cni new proven
daemonset gpu new proven
node a cni=old gpu=old`, `
cni a cni from now to +5m0s
gpu a gpu from +5m0s to +10m0s
cni: done +5m0s
gpu: done +10m0s`},
		"what is under way settles": {`
policy cni cni
daemonset cni new proven
node a
node b cni=old
visit cni a cni:old>new(evicted=1m)`, `
cni a cni from -1h0m0s to +5m0s
cni b cni from +5m0s to +10m0s
cni: done +10m0s`},
		"nothing to do": {`
policy cni cni
daemonset cni new
node a cni=new`, `
cni:`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := readScene(t, tt.scene)
			got := strings.TrimSpace(formatForecast(Simulate(s.observed, s.policies, s.now), s))
			if want := strings.TrimSpace(tt.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func BenchmarkSimulate(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			obs, policies, now := fleetOf(nodes, 3, 3, func(int) bool { return true })
			for b.Loop() {
				Simulate(obs, policies, now)
			}
		})
	}
}
