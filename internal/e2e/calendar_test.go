// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/rollout"
)

// holidays is a freeze whose days are in a file, and calendar that file.
const holidays = "---\napiVersion: lamplighter.dev/v1alpha1\nkind: Freeze\nmetadata: {name: holidays}\nspec: {timeZone: Europe/Berlin, calendar: holidays.ics}\n"

func (s span) calendar(summary string) string {
	const utc = "20060102T150405Z"
	return fmt.Sprintf("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nDTSTART:%s\r\nDTEND:%s\r\nSUMMARY:%s\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
		s.from.UTC().Format(utc), s.to.UTC().Format(utc), summary)
}

// A holiday is known from the cluster alone: an agent that starts while Git
// cannot be reached visits no node in it.
func TestHolidayHoldsThroughARestartWithoutGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start(t)
	holiday := span{second(-time.Hour), second(time.Hour)}
	files := func(version string) map[string]string {
		all := w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "v"+version),
			"rules.yaml": rules{maxUnavailable: "6", fields: "  templates: Immediately\n", more: holidays}.yaml(w),
		})
		all["holidays.ics"] = holiday.calendar("Christmas Day")
		return all
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	hash := w.commit(t, "version 2", files("2"))
	w.inForce(t, hash)
	w.frozen(t, "Christmas Day", holiday.to)

	a.stop(t)
	w.git.Stop()
	w.start(t)
	w.problem(t, hash, "connect") // a pass of the new agent
	w.frozen(t, "Christmas Day", holiday.to)
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted on a holiday: %v", given)
	}

	w.git.Restart(t)
	open := span{second(3 * time.Second), second(time.Hour)}
	w.commit(t, "the holiday ends", map[string]string{"holidays.ics": span{holiday.from, open.from}.calendar("Christmas Day")})
	w.settled(t, "2")
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted on a holiday that ended at %s: %v", open.from.Format(time.TimeOnly), early)
	}
	w.onceEach(t)
	w.withinBudget(t, 6)
}

// frozen waits until every node is held by a freeze that says so.
func (w *world) frozen(t *testing.T, says string, until time.Time) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		held := 0
		for _, n := range s.Nodes {
			if at, err := time.Parse(time.RFC3339, n.Until); err == nil && at.Equal(until) && n.Reason == string(rollout.Frozen) && strings.Contains(n.Message, says) {
				held++
			}
		}
		if held != nodes {
			return fmt.Errorf("%d nodes are frozen until %s by %q: %+v", held, until, says, s.Nodes)
		}
		return nil
	})
}
