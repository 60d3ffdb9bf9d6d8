// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// The outage lasts until the agent has lost its Lease: it has to begin anew.
func TestAgentOutlivesAnOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, err := url.Parse(w.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	line := newLine(t, server.Host)
	a := w.start(t, listening, func(cfg *agent.Config) {
		cfg.Cluster = rest.CopyConfig(w.Config)
		cfg.Cluster.Host = "https://" + line.addr()
	})
	files := func(version, value string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "v1"), "a.yaml": configMap("a", value),
			"rules.yaml": rules{maxUnavailable: "6"}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1", "1"))
	testkit.Eventually(t, patience, func(context.Context) error {
		if n := line.refused(); n < 3 {
			return fmt.Errorf("the agent has tried %d times to reach the API server", n)
		}
		return nil
	})
	line.connect()
	w.settled(t, "1")
	readyz(t, a.log, "leading")

	line.cut()
	w.commit(t, "version 2", files("2", "2"))
	readyz(t, a.log, "waiting for the lease")
	line.connect()
	w.settled(t, "2")
	w.says(t, "a", "2")
	w.onceEach(t)
	w.withinBudget(t, 6)
}

// The API server is killed and started again twice while nodes are visited, with
// none to take its place. The rollout goes on from what is on record: every node is
// visited once, and never more at a time than may be.
func TestRolloutOutlivesRestartsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	const budget = 2
	w := &world{Cluster: testkit.NewSandbox(t, testkit.Options{Nodes: nodes, PodReadyAfter: 100 * time.Millisecond}), git: testkit.StartGit(t, testkit.GitOptions{})}
	w.namespace = w.Namespace(t)
	w.instance = inventory.Instance{Namespace: w.namespace, Name: "lamplighter"}
	w.repo = w.git.Repo(t, "fleet")
	w.start(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "slow-500ms"),
			"rules.yaml": rules{maxUnavailable: strconv.Itoa(budget)}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	w.settled(t, "1")
	w.commit(t, "version 2", files("2"))
	for _, visits := range []int{2, 6} {
		testkit.Eventually(t, patience, func(ctx context.Context) error {
			state, err := w.state(ctx)
			if n := len(state.Ledger.Finished); err == nil && n < visits {
				err = fmt.Errorf("%d visits are finished, want %d", n, visits)
			}
			return err
		})
		w.RestartAPIServer(t)
	}
	w.settled(t, "2")
	visits := w.finished(t)
	if got := visited(w.stateNow(t).Ledger); len(got) != nodes || len(slices.Compact(got)) != nodes {
		t.Errorf("finished visits: got %v, want one for each of %d nodes", got, nodes)
	}
	for _, v := range visits {
		beside := 0
		for _, o := range visits {
			if !o.Started.After(v.Started) && o.Finished.After(v.Started) {
				beside++
			}
		}
		if beside > budget {
			t.Errorf("%d nodes were visited when the visit to %s began, want %d at most", beside, v.Node, budget)
		}
	}
}

func TestAgentWithoutAnAPIServerSaysSoAndStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(nowhere, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.spawn(t, "--listen", "", "--kubeconfig", nowhere)
	testkit.Eventually(t, patience, func(context.Context) error {
		if lines := c.log.lines("connection refused"); len(lines) < 2 {
			return fmt.Errorf("the log says %d times that the API server cannot be reached", len(lines))
		}
		return nil
	})
	if code := c.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if lines := c.log.lines("panic"); len(lines) > 0 {
		t.Errorf("the log: %s", strings.Join(lines, "\n"))
	}
}
