// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

const ahead = "this machine's clock is 1m0s ahead of the API server's"

// watchmaker is a clock of which a test says what is known.
type watchmaker struct {
	known  string // without asking
	later  string // known once the pass has begun to act
	answer string // when asked
	asked  int    // how often
	looks  int    // how often it was looked at
}

func (w *watchmaker) Problem() string {
	w.looks++
	if w.looks > 1 && w.later != "" {
		return w.later
	}
	return w.known
}

func (w *watchmaker) Confirm(context.Context) string {
	w.asked++
	return w.answer
}

func TestNothingThatWaitsForAWindowIsDoneByADoubtfulClock(t *testing.T) {
	const always = `
apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: network}
spec:
  daemonSets: [{namespace: agents, name: cni}]
  windows: [always]
`
	for name, test := range map[string]struct {
		policies string
		now      time.Time
		outdated bool
		clock    watchmaker
		evicted  int
		asked    int
		note     string // of the clock, in the record
	}{
		"it is confirmed first":           {governed, open, true, watchmaker{}, 1, 1, ""},
		"it is known to be wrong":         {governed, open, true, watchmaker{known: ahead}, 0, 0, ahead},
		"it is found to be wrong":         {governed, open, true, watchmaker{answer: ahead}, 0, 1, ahead},
		"it is set back meanwhile":        {governed, open, true, watchmaker{later: "this machine's clock was set back"}, 0, 1, ""},
		"nothing is to be done":           {governed, open, false, watchmaker{answer: ahead}, 0, 0, ""},
		"the window is shut":              {governed, shut, true, watchmaker{answer: ahead}, 0, 0, ""},
		"always open: it does not matter": {always, open, true, watchmaker{answer: ahead}, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &evicting{world: &world{objects: map[string]string{"cni": ""}}, result: rollout.Sent, obs: observe(t, test.policies)}
			e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
			if test.outdated {
				e.obs.Pods[0].Hash = "older"
			}
			clock := test.clock
			r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, AwaitEvictions: true, Now: func() time.Time { return test.now }, Clock: &clock, TimeZones: "2025c"})
			report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Attempts) != test.evicted || clock.asked != test.asked {
				t.Errorf("%d evictions and %d questions, want %d and %d", len(report.Attempts), clock.asked, test.evicted, test.asked)
			}
			if got, want := e.stored.Record.Clock, (ClockNote{Problem: test.note, TimeZones: "2025c"}); got != want {
				t.Errorf("record: got %+v, want %+v", got, want)
			}
		})
	}
}

func TestDaemonSetsThatWaitForAWindowWaitForTheClockToo(t *testing.T) {
	for name, test := range map[string]struct {
		clock watchmaker
		want  string
		asked int
	}{
		"it is confirmed":          {watchmaker{}, "new", 1},
		"it is known to be wrong":  {watchmaker{known: ahead}, "old", 0},
		"it is found to be wrong":  {watchmaker{answer: ahead}, "old", 1},
		"it is set back meanwhile": {watchmaker{later: "this machine's clock was set back"}, "old", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &slow{world: &world{objects: map[string]string{"cni": "old"}}, now: open}
			s.stored.Inventory = inventory.NewSet(daemonSetID(agents))
			clock := test.clock
			r := NewReconciler(Options{Instance: us, Cluster: s, Store: s, Now: func() time.Time { return s.now }, Clock: &clock})
			if _, err := r.Pass(t.Context(), Source{Fleet: fleetOf(t, governed)}); err != nil {
				t.Fatal(err)
			}
			if changed := s.objects["cni"] != "old"; changed != (test.want == "new") || clock.asked != test.asked {
				t.Errorf("changed %t and %d questions, want %s and %d", changed, clock.asked, test.want, test.asked)
			}
		})
	}
}

// A Job before a visit waits for a window as the visit does, so that the clock is
// confirmed before it is created.
func TestJobBeforeAVisitIsNotCreatedByADoubtfulClock(t *testing.T) {
	for name, test := range map[string]struct {
		clock       watchmaker
		jobs, asked int
	}{
		"it is confirmed first":    {watchmaker{}, 1, 1},
		"it is known to be wrong":  {watchmaker{known: ahead}, 0, 0},
		"it is found to be wrong":  {watchmaker{answer: ahead}, 0, 1},
		"it is set back meanwhile": {watchmaker{later: "this machine's clock was set back"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJobbing(t, open)
			clock := test.clock
			r := NewReconciler(Options{
				Instance: us, Cluster: &evicting{world: j.world, obs: j.obs, result: rollout.Sent}, Store: j, Jobs: j,
				Now: func() time.Time { return j.now }, Clock: &clock,
			})
			if err := j.pass(t, r); err != nil {
				t.Fatal(err)
			}
			if len(j.jobs) != test.jobs || clock.asked != test.asked {
				t.Errorf("%d Jobs and %d questions, want %d and %d", len(j.jobs), clock.asked, test.jobs, test.asked)
			}
		})
	}
}

// A freeze of everything holds back a ConfigMap, unless somebody says to proceed.
func TestProceedLiftsAFreezeOfEverything(t *testing.T) {
	frozen := governed + `---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: stop}
spec: {start: 2026-12-01T00:00:00Z, end: 2026-12-02T00:00:00Z, reason: all, scope: Everything}
`
	obs := observe(t, frozen)
	obs.Changes = []inventory.Change{templateChange(t), {ID: configMap("a"), Kind: inventory.Create, Object: object(configMap("a"))}}
	obs.Orphans = []inventory.Live{{ID: configMap("b"), Annotations: owned}}
	obs.State.Inventory = inventory.NewSet(daemonSetID(agents), configMap("b"))
	for _, proceeding := range []bool{false, true} {
		if proceeding {
			var err error
			if obs.State.Ledger, err = obs.State.Ledger.Proceed(rollout.Proceed{Policy: "network", Since: shut, Until: shut.Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}
		held := map[string]bool{}
		for id := range vetoes(obs, shut) {
			held[inventory.Format(id)] = true
		}
		if held["DaemonSet/agents/cni"] == proceeding || held[inventory.Format(configMap("a"))] == proceeding || !held[inventory.Format(configMap("b"))] {
			t.Errorf("proceeding %t: held are %v", proceeding, held)
		}
	}
}

// A clock that was a day ahead, and has been set right, leaves a refusal of tomorrow
// behind: the eviction is tried again as soon as after any other.
func TestWhatAWrongClockWroteDownIsNotWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		clock string
		wait  time.Duration // at most
	}{
		"it is right again":     {"", 10 * time.Minute},
		"it is not trusted yet": {ahead, 25 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			obs := observe(t, strings.Replace(governed, "[night]", "[always]", 1))
			obs.ClockProblem = test.clock
			obs.Pods[0].Hash = "older"
			obs.State.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
			obs.State.Ledger.Refusals = []rollout.Refusal{{Policy: "network", Node: "n1", DaemonSet: agents.String(), Pod: "pod", At: open.Add(24 * time.Hour)}}
			plan := mustPlan(t, obs, open)
			wait := plan.NextLook.Sub(open)
			if evictionCount(plan) > 0 || wait <= 0 || wait > test.wait || (test.clock != "" && wait < 24*time.Hour) {
				t.Errorf("%d evictions, next look in %s, want none, and %s at most", evictionCount(plan), wait, test.wait)
			}
			if kept := plan.Rollout.Ledger.Refusals[0].At; (test.clock == "") != kept.Equal(open) {
				t.Errorf("the refusal is of %s on record, now is %s", kept, open)
			}
		})
	}
}
