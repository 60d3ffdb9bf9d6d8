// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/rollout"
)

// What plan foretells of a commit is what the agent then does: node after node in
// the same order, each in its window, the canary first and soaked.
func TestPlanForetellsTheRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	shut := rules{windows: "early, late", more: far().window("early") + far().window("late")}
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "slow-500ms"), "rules.yaml": shut.yaml(w)}))
	w.settled(t, "1")
	if _, err := w.status(t); err != nil { // also: the binary is built
		t.Fatal(err)
	}

	early := span{second(15 * time.Second), second(40 * time.Second)}
	late := span{early.to.Add(10 * time.Second), early.to.Add(time.Hour)}
	open := rules{
		windows: "early, late", more: early.window("early") + late.window("late"),
		// The soak is longer than what is left of the first opening.
		fields: `  waves:
  - {name: canary, soak: 25s, nodeSelector: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-005, node-008]}]}}
  - {name: rest}
`,
	}
	files := w.fleet(map[string]string{"agent.yaml": daemonSet("2", "slow-500ms"), "rules.yaml": open.yaml(w)})
	plan := w.plan(t, files)
	w.commit(t, "version 2", files)
	w.goesOn(t, late)
	w.settled(t, "2")

	var foretold, came []string
	for _, v := range plan.Policies[0].Visits {
		foretold = append(foretold, fmt.Sprintf("%s %s in %s", v.Node, v.Wave, v.Window))
	}
	for _, v := range w.finished(t) {
		wave, window := "rest", "no window"
		if v.Node == "node-005" || v.Node == "node-008" {
			wave = "canary"
		}
		for name, s := range map[string]span{"early": early, "late": late} {
			if s.has(v.Started) {
				window = name
			}
		}
		came = append(came, fmt.Sprintf("%s %s in %s", v.Node, wave, window))
	}
	if diff := gocmp.Diff(foretold, came); diff != "" {
		t.Errorf("visits (-foretold +came):\n%s", diff)
	}
	if len(came) != nodes {
		t.Errorf("%d visits, want %d", len(came), nodes)
	}
	if o := plan.Objects; len(o) != 1 || o[0].Restarts != nodes || o[0].Reason != string(rollout.WindowShut) {
		t.Errorf("changes: got %+v, want a template that is held and restarts every node", o)
	}
}

// plan is what `lamplighter plan` says of files that nobody has committed yet.
func (w *world) plan(t *testing.T, files map[string]string) show.Plan {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := w.planOf(t, dir)
	if len(plan.Policies) != 1 {
		t.Fatalf("plan for %d policies, want one: %+v", len(plan.Policies), plan)
	}
	return plan
}

// planOf is what `lamplighter plan` says of a working tree.
func (w *world) planOf(t *testing.T, dir string, flags ...string) show.Plan {
	t.Helper()
	var stderr strings.Builder
	cmd := w.command(t, append([]string{"plan", dir, "-o", "json"}, flags...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("plan: %v: %s", err, &stderr)
	}
	var plan show.Plan
	if err := json.Unmarshal(out, &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// finished are the visits on record, by their start.
func (w *world) finished(t *testing.T) []rollout.Visit {
	t.Helper()
	visits := slices.Clone(w.stateNow(t).Ledger.Finished)
	slices.SortStableFunc(visits, func(a, b rollout.Visit) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Node, b.Node))
	})
	return visits
}
