// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
)

func TestLastCommitStaysInForceWhileGitIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"),
		"rules.yaml": rules{windows: "night", more: far().window("night")}.yaml(w),
	}))
	w.settled(t, "1")
	open := span{second(6 * time.Second), second(time.Hour)}
	hash := w.commit(t, "version 2", map[string]string{
		"agent.yaml": daemonSet("2", "v2"),
		"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: open.window("night")}.yaml(w),
	})
	w.inForce(t, hash)

	w.git.Stop()
	w.problem(t, hash, "connect")
	w.edit(t, "a", `{"data":{"key":"edited"}}`)
	w.says(t, "a", "1")
	w.settled(t, "2")
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted outside %s: %v", open, early)
	}

	hash = w.commit(t, "version 3", map[string]string{"a.yaml": configMap("a", "3")})
	w.git.Restart(t)
	w.inForce(t, hash)
	w.says(t, "a", "3")
	w.onceEach(t)
}

func TestBadCommitChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := w.start(t)
	files := w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "rules.yaml": rules{more: holidays}.yaml(w),
	})
	files["holidays.ics"] = far().calendar("Christmas Day")
	good := w.commit(t, "good", files)
	w.settled(t, "1")
	before, a := text(t, w.rested(t)), w.configMap(t, "a")

	for _, bad := range []struct{ name, file, content, says string }{
		{"unreadable", "a.yaml", "apiVersion: v1\nkind: ConfigMap\n  metadata: [", "a.yaml"},
		{"unknown field", "rules.yaml", rules{maxUnavailable: "1\n  maxUnavailabel: 2"}.yaml(w), "maxUnavailabel"},
		{"wrong example", "rules.yaml", rules{more: far().example(true)}.yaml(w), "open is false"},
		{"calendar cut off", "holidays.ics", strings.TrimSuffix(files["holidays.ics"], "END:VCALENDAR\r\n"), "holidays.ics"},
		{"missing file", "kustomization.yaml", w.kustomization([]string{"agent.yaml", "gone.yaml"}, ""), "gone.yaml"},
	} {
		// The rest of a bad commit is good, and must not be taken either.
		earlier := agent.log.terms()
		hash := w.commit(t, bad.name, map[string]string{"agent.yaml": daemonSet("2", "v2"), bad.file: bad.content})
		w.problem(t, good, bad.says)
		w.polled(t, 3)
		lines, terms := agent.log.lines(hash[:7]), 1+agent.log.terms()-earlier
		if len(lines) < 1 || len(lines) > terms || !strings.Contains(lines[0], "newest commit is not in force") || !strings.Contains(lines[0], bad.says) {
			t.Errorf("%s: want one line in the log that says what is wrong for each of %d terms, got %q", bad.name, terms, lines)
		}
		if got := text(t, w.daemonSetNow(t, "agent")); got != before {
			t.Errorf("%s: the DaemonSet changed:\n%s\nbefore:\n%s", bad.name, got, before)
		}
		if got := w.configMap(t, "a"); got.ResourceVersion != a.ResourceVersion {
			t.Errorf("%s: ConfigMap a changed: %+v", bad.name, got)
		}
		good = w.repo.Revert(t, "main") // seen now, or it may come into force in between
		w.inForce(t, good)
	}
	w.edit(t, "a", `{"data":{"key":"edited"}}`)
	w.says(t, "a", "1")

	hash := w.commit(t, "good again", map[string]string{"a.yaml": configMap("a", "2")})
	w.inForce(t, hash)
	w.says(t, "a", "2")
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted: %v", given)
	}
}

// problem waits until the record says what is wrong with the newest commit,
// while an older one is in force.
func (w *world) problem(t *testing.T, inForce, says string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		switch r := state.Record; {
		case r.Problem == "":
			return errors.New("the record knows of no problem")
		case !strings.Contains(r.Problem, says):
			return fmt.Errorf("the record does not say %q: %s", says, r.Problem)
		case r.Commit.Hash != inForce:
			return fmt.Errorf("commit %.7s is in force, not %.7s", r.Commit.Hash, inForce)
		}
		return nil
	})
}
