// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// What plan foretells for the example fleet is what the agent then does: first of
// a policy that visits one node after another, then of one with a canary. The
// cluster is the test's own, since the fleet is on every node of it.
func TestPlanForetellsTheExampleFleet(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: testkit.NewSandbox(t, testkit.Options{Nodes: nodes, PodReadyAfter: 100 * time.Millisecond}), git: testkit.StartGit(t, testkit.GitOptions{})}
	w.namespace = w.Namespace(t)
	w.instance.Namespace, w.instance.Name = w.namespace, "lamplighter"
	w.repo = w.git.Repo(t, "fleet")
	w.start(t, func(cfg *agent.Config) { cfg.Path = "clusters/demo" })

	f := newExampleFleet(t)
	f.windows(t, far())
	w.has(t, w.repo.CommitFS(t, "main", "the fleet", os.DirFS(f.dir)), "", 0)

	for _, bump := range []struct{ policy, from, to string }{
		{"network", "v3.30.2", "v3.30.3"},
		{"observability", "v1.9.1", "v1.9.2"},
	} {
		opens := span{second(20 * time.Second), second(time.Hour)}
		f.windows(t, opens)
		f.retag(t, bump.from, bump.to)
		plan := w.planOf(t, f.dir, "--path", "clusters/demo")
		w.has(t, w.repo.CommitFS(t, "main", bump.to, os.DirFS(f.dir)), bump.policy, nodes)

		var foretold, came []string
		for _, p := range plan.Policies {
			for _, v := range p.Visits {
				foretold = append(foretold, fmt.Sprintf("%s: %s %s in %s", p.Name, v.Node, v.Wave, v.Window))
			}
		}
		for _, v := range w.finished(t) {
			if v.Policy != bump.policy {
				continue
			}
			wave := map[string]string{"observability": "rest"}[v.Policy]
			if v.Node == "node-000" && wave != "" {
				wave = "canary"
			}
			window := "no window"
			if opens.has(v.Started) {
				window = "weeknights"
			}
			came = append(came, fmt.Sprintf("%s: %s %s in %s", v.Policy, v.Node, wave, window))
		}
		if diff := gocmp.Diff(foretold, came); diff != "" {
			t.Errorf("visits (-foretold +came):\n%s", diff)
		}
	}
}

// has waits until a commit is in force, and a policy has visited as many nodes.
func (w *world) has(t *testing.T, commit, policy string, visits int) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, v := range state.Ledger.Finished {
			if v.Policy == policy {
				n++
			}
		}
		if r := state.Record; r.Commit.Hash != commit || r.Problem != "" || n != visits || len(state.Ledger.Visits) > 0 {
			return fmt.Errorf("commit %.7s is in force, not %.7s; %d visits of %s, want %d; problem: %q", r.Commit.Hash, commit, n, policy, visits, r.Problem)
		}
		list, err := w.status(t)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list.DaemonSets, func(d show.DaemonSetStatus) bool { return d.Available != d.Desired || d.Desired == 0 }); i >= 0 || len(list.DaemonSets) != 4 {
			return fmt.Errorf("not all of 4 DaemonSets are available: %+v", list.DaemonSets)
		}
		return nil
	})
}

// exampleFleet is a working tree of examples/fleet.
type exampleFleet struct{ dir string }

func newExampleFleet(t *testing.T) exampleFleet {
	t.Helper()
	f := exampleFleet{filepath.Join(t.TempDir(), "fleet")}
	if err := os.CopyFS(f.dir, os.DirFS("../../examples/fleet")); err != nil {
		t.Fatal(err)
	}
	return f
}

// windows lets both windows be open for a span.
func (f exampleFleet) windows(t *testing.T, s span) {
	t.Helper()
	f.write(t, "windows.yaml", []byte(s.window("weeknights")+s.window("working-hours")))
}

// retag changes the version of an image.
func (f exampleFleet) retag(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "clusters/demo/kustomization.yaml"))
	if err != nil || !bytes.Contains(data, []byte(from)) {
		t.Fatalf("no image has the tag %s (%v)", from, err)
	}
	f.write(t, "kustomization.yaml", bytes.ReplaceAll(data, []byte(from), []byte(to)))
}

func (f exampleFleet) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "clusters/demo", name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}
