// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

func TestTemplateWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	shut := far()
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"),
		"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: shut.window("night")}.yaml(w),
	}))
	w.settled(t, "1")
	before := w.rested(t)

	hash := w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	note := w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reason(rollout.WindowShut))
	if !note.Until.Equal(shut.from) || note.Action != string(inventory.Hold) {
		t.Errorf("note: got %+v, want a hold until %s", note, shut.from)
	}
	w.inForce(t, hash)
	w.polled(t, 2)
	if got, want := text(t, w.daemonSetNow(t, "agent")), text(t, before); got != want {
		t.Errorf("the live DaemonSet changed while the window was shut:\n%s\nbefore:\n%s", got, want)
	}

	open := span{second(4 * time.Second), second(time.Hour)}
	w.commit(t, "open tonight", map[string]string{
		"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: open.window("night")}.yaml(w),
	})
	w.settled(t, "2")
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted outside %s: %v", open, early)
	}
	if at := applied(t, w.daemonSetNow(t, "agent")); !open.has(at) {
		t.Errorf("the template was applied at %s, outside %s", at, open)
	}
	w.onceEach(t)
	w.withinBudget(t, 6)
}

// A window that shuts half-way, by itself or by a freeze.
func TestPodsAreDeletedInsideWindowsOnly(t *testing.T) {
	t.Parallel()
	for name, calendar := range map[string]func(first, second span) (windows, documents string){
		"two windows": func(first, second span) (string, string) {
			return "early, late", first.window("early") + second.window("late")
		},
		"one window and a freeze in it": func(first, second span) (string, string) {
			return "night", span{first.from, second.to}.window("night") + span{first.to, second.from}.freeze("incident")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(t)
			// A visit takes more than two seconds, so that the first opening is too
			// short for twelve, however fast the machine. It is long enough for one
			// on a machine that stands still for a while.
			tag := "slow-2s"
			w.commit(t, "version 1", w.fleet(map[string]string{
				"agent.yaml": daemonSet("1", tag),
				"rules.yaml": rules{windows: "night", more: far().window("night")}.yaml(w),
			}))
			w.settled(t, "1")

			first := span{second(3 * time.Second), second(23 * time.Second)}
			last := span{first.to.Add(4 * time.Second), first.to.Add(time.Hour)}
			windows, documents := calendar(first, last)
			w.commit(t, "version 2", map[string]string{
				"agent.yaml": daemonSet("2", tag),
				"rules.yaml": rules{windows: windows, more: documents}.yaml(w),
			})
			testkit.Eventually(t, patience, func(context.Context) error { return w.deleted(t, 1) })
			w.goesOn(t, last)
			w.settled(t, "2")

			given := w.orders(t)
			if wrong := outside(given, first, last); len(wrong) > 0 {
				t.Errorf("pods were deleted outside %s and %s: %v", first, last, wrong)
			}
			if late := outside(given, first); len(late) == 0 || len(late) == nodes {
				t.Errorf("%d pods were deleted after the first opening: want some, and not all", len(late))
			}
			w.onceEach(t)
			w.withinBudget(t, 1)
		})
	}
}

func text(t *testing.T, d any) string {
	t.Helper()
	out, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// applied is when our field manager changed the DaemonSet last, as the API
// server has it.
func applied(t *testing.T, d *appsv1.DaemonSet) time.Time {
	t.Helper()
	for _, m := range d.ManagedFields {
		if m.Manager == inventory.FieldManager && m.Subresource == "" {
			return m.Time.Time
		}
	}
	t.Fatalf("%s has no fields of manager %s", d.Name, inventory.FieldManager)
	return time.Time{}
}
