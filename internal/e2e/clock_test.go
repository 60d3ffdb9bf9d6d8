// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/rollout"
)

func TestWindowsStayShutWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := w.Proxy(t)
	a := w.start(t, func(cfg *agent.Config) { cfg.Cluster = rest.CopyConfig(proxy.Config) })
	open := span{second(-time.Hour), second(time.Hour)}
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "v"+version), "a.yaml": configMap("a", version),
			"rules.yaml": rules{windows: "night", maxUnavailable: "6", more: open.window("night")}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	before := w.rested(t)

	proxy.SetAhead(time.Minute)
	w.clockProblem(t, "behind the API server's")
	hash := w.commit(t, "version 2", files("2"))
	w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reason(rollout.ClockUntrusted))
	w.inForce(t, hash)
	w.says(t, "a", "2") // what disturbs no pod goes on
	w.polled(t, 2)
	if now := w.daemonSetNow(t, "agent"); now.Generation != before.Generation {
		t.Error("the template was applied by a clock that is wrong")
	}
	if s, err := w.status(t); err != nil || !s.Bad() || !strings.Contains(s.Clock.Problem, "1m0s behind") || s.Clock.TimeZones == "" {
		t.Errorf("status: %+v (%v)", s.Clock, err)
	}

	proxy.SetAhead(0)
	w.settled(t, "2")
	w.clockProblem(t, "")
	w.onceEach(t)
	w.withinBudget(t, 6)
	if lines := a.log.lines("windows stay shut"); len(lines) != 1 {
		t.Errorf("the log says %d times that windows stay shut: %q", len(lines), lines)
	}
}

// The template is live already when the clock goes wrong.
func TestNoPodIsEvictedWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := w.Proxy(t)
	w.start(t, func(cfg *agent.Config) { cfg.Cluster = rest.CopyConfig(proxy.Config) })
	open := span{second(-time.Hour), second(time.Hour)}
	policy := strings.Replace(rules{windows: "night", maxUnavailable: "6", more: open.window("night")}.yaml(w),
		"  maxFailures", "  templates: Immediately\n  maxFailures", 1)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1"), "rules.yaml": policy}))
	w.settled(t, "1")

	proxy.SetAhead(-time.Minute)
	w.clockProblem(t, "ahead of the API server's")
	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	testkit.Eventually(t, patience, func(context.Context) error {
		s, err := w.status(t)
		if err != nil {
			return err
		}
		held := 0
		for _, n := range s.Nodes {
			if n.Reason == string(rollout.ClockUntrusted) {
				held++
			}
		}
		if held != nodes {
			return fmt.Errorf("%d nodes wait for the clock: %+v", held, s.Nodes)
		}
		return nil
	})
	w.polled(t, 2)
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted by a clock that is wrong: %v", given)
	}
	proxy.SetAhead(0)
	w.settled(t, "2")
	w.onceEach(t)
}

// The clock of the agent's machine is set, forth into one window and back into
// another. Nobody is evicted in a window that is none, and once the clock is right
// again the agent goes on by itself.
func TestClockThatIsSetOpensNoWindowAndHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wrong atomic.Int64 // by so many nanoseconds
	w.start(t, func(cfg *agent.Config) {
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	})
	policy := func(more ...span) string {
		windows, names := "", "past, future"
		for i, s := range append([]span{{second(-2 * time.Hour), second(-time.Hour)}, far()}, more...) {
			windows += s.window([]string{"past", "future", "now"}[i])
		}
		if len(more) > 0 {
			names += ", now"
		}
		return strings.Replace(rules{windows: names, maxUnavailable: "6", more: windows}.yaml(w), "  maxFailures", "  templates: Immediately\n  maxFailures", 1)
	}
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1"), "rules.yaml": policy()}))
	w.settled(t, "1")
	hash := w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	w.inForce(t, hash)
	for by, problem := range map[time.Duration]string{25 * time.Hour: "ahead of", -90 * time.Minute: "behind"} {
		wrong.Store(int64(by))
		w.commit(t, "a reason for a pass", map[string]string{"README.md": problem})
		w.clockProblem(t, problem)
		w.polled(t, 2)
		wrong.Store(0)
		w.clockProblem(t, "")
		w.polled(t, 2)
		if given := w.orders(t); len(given) > 0 {
			t.Fatalf("pods were deleted by a clock that was %s: %v", by, given)
		}
	}
	open := span{second(-time.Minute), second(time.Hour)}
	w.commit(t, "open tonight", map[string]string{"rules.yaml": policy(open)})
	w.settled(t, "2")
	w.onceEach(t)
	if early := outside(w.orders(t), open); len(early) > 0 {
		t.Errorf("pods were deleted outside %s: %v", open, early)
	}
}

// clockProblem waits until the record says that of the clock.
func (w *world) clockProblem(t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		if got := state.Record.Clock.Problem; (got == "") != (want == "") || !strings.Contains(got, want) {
			return fmt.Errorf("clock problem %q, want %q", got, want)
		}
		return nil
	})
}

// A person's own machine is no better than the agent's.
func TestCommandsDoubtTheClockOfTheirMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := w.Proxy(t)
	kubeconfig := proxy.Kubeconfig(t)
	open := span{second(-time.Hour), second(time.Hour)}
	dir := t.TempDir()
	apply := func(version string) string {
		t.Helper()
		for name, text := range w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "v1"), "rules.yaml": rules{windows: "night", more: open.window("night")}.yaml(w),
		}) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := w.command(t, "apply", dir, "--yes", "--kubeconfig", kubeconfig).CombinedOutput()
		if err != nil {
			t.Fatalf("apply: %v: %s", err, out)
		}
		return string(out)
	}
	apply("1")
	w.rested(t)
	proxy.SetAhead(time.Minute)
	if out := apply("2"); !strings.Contains(out, string(rollout.ClockUntrusted)) {
		t.Errorf("apply does not say that the clock is doubted:\n%s", out)
	}
	if got := w.daemonSetNow(t, "agent").Spec.Template.Annotations[versionKey]; got != "1" {
		t.Errorf("version %s was applied by a clock that is wrong", got)
	}
	out, err := w.command(t, "proceed", "agents", "--for", "1h", "--reason", "CVE-1", "--kubeconfig", kubeconfig).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "1m0s behind the API server's") {
		t.Errorf("proceed by a clock that is wrong: %v: %s", err, out)
	}
	if said := w.stateNow(t).Ledger.Proceeds; len(said) > 0 {
		t.Errorf("it is on record: %+v", said)
	}
	proxy.SetAhead(0)
	apply("2")
	if got := w.daemonSetNow(t, "agent").Spec.Template.Annotations[versionKey]; got != "2" {
		t.Errorf("version %s is applied once the clock is right, want 2", got)
	}
}
