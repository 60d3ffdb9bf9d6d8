// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// reverting is a fleet that goes back by itself. Each version mounts a ConfigMap
// of its own.
func (w *world) reverting(version, tag string) map[string]string {
	files := map[string]string{
		"agent.yaml": configMounted(version, tag),
		"rules.yaml": rules{maxUnavailable: "2", fields: "  onFailure: Revert\n"}.yaml(w),
	}
	files["kustomization.yaml"] = w.kustomization(slices.Sorted(maps.Keys(files)),
		fmt.Sprintf("configMapGenerator: [{name: config, literals: [version=%s]}]\n", version))
	return files
}

func TestBrokenImageIsRevertedWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := w.start(t)
	w.commit(t, "version 1", w.reverting("1", "v1"))
	w.settled(t, "1")
	w.allSettled(t)
	mounted := w.daemonSetNow(t, "agent").Spec.Template.Spec.Volumes[0].ConfigMap.Name

	bad := w.commit(t, "a bad build", w.reverting("2", "crash"))
	note := w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reverted)
	if !strings.Contains(note.Message, bad[:7]) || !strings.Contains(note.Message, "CrashLoopBackOff") {
		t.Errorf("the note does not say which commit is bad, and why: %s", note.Message)
	}
	w.settled(t, "1")
	broken := w.countByNode(t)
	if len(broken) != 1 {
		t.Errorf("pods were deleted on %v, want one node: at most one may try what is not proven", broken)
	}
	for node, n := range broken {
		if n != 2 {
			t.Errorf("%s: its pod was deleted %d times, not once there and once back", node, n)
		}
	}

	// It stays so: for this agent, for the next one, and for those who look.
	w.polled(t, 3)
	agent.stop(t)
	w.start(t)
	w.polled(t, 3)
	if got := w.daemonSetNow(t, "agent").Spec.Template.Annotations[versionKey]; got != "1" || len(w.orders(t)) != 2 {
		t.Errorf("the template is of version %s after %d deletions, want 1 after 2", got, len(w.orders(t)))
	}
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), mounted, metav1.GetOptions{}); err != nil {
		t.Errorf("what the pods mount that went back is gone: %v", err)
	}
	w.tellsOfReversal(t, bad[:7])

	w.commit(t, "the cure", w.reverting("3", "v3"))
	w.settled(t, "3")
	w.withinBudget(t, 2)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err == nil && (len(state.Ledger.Reversals) > 0 || len(state.Record.Objects) > 0) {
			err = fmt.Errorf("still on record: %+v %+v", state.Ledger.Reversals, state.Record.Objects)
		}
		return err
	})
	w.events(t, "Halted", "Reverted", "VisitFailed")
}

// tellsOfReversal asks those who look at a cluster about a commit that is marked bad.
func (w *world) tellsOfReversal(t *testing.T, commit string) {
	t.Helper()
	s, err := w.status(t)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.DaemonSets[0].Reverted; r == nil || !strings.HasPrefix(r.Commit, commit) || !s.Bad() || s.Policies[0].Halted {
		t.Errorf("status: %+v %+v", s.DaemonSets, s.Policies)
	}
	for _, command := range []string{"status", "why daemonset/" + w.namespace + "/agent"} {
		out, err := w.command(t, strings.Fields(command)...).Output()
		if !strings.Contains(string(out), "commit "+commit+" is marked bad") {
			t.Errorf("%s does not tell of it: %v\n%s", command, err, out)
		}
	}
}

func TestResumeTriesWhatWasReverted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.reverting("1", "v1"))
	w.settled(t, "1")
	w.allSettled(t)
	w.commit(t, "a bad build", w.reverting("2", "crash"))
	w.noteOn(t, "DaemonSet/"+w.namespace+"/agent", inventory.Reverted)
	w.settled(t, "1")
	since := w.stateNow(t).Ledger.Reversals[0].Since

	w.run(t, "resume", "agents")
	testkit.Eventually(t, patience, func(ctx context.Context) error { // it breaks again
		state, err := w.state(ctx)
		if err == nil && (len(state.Ledger.Reversals) != 1 || !state.Ledger.Reversals[0].Since.After(since)) {
			err = fmt.Errorf("not reverted anew: %+v", state.Ledger.Reversals)
		}
		return err
	})
	w.settled(t, "1")
	if n := len(w.orders(t)); n != 4 {
		t.Errorf("%d pods were deleted, want 4: there and back, twice", n)
	}
}

// allSettled waits until it is on record that every node has settled on the
// revision in force.
func (w *world) allSettled(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err == nil && state.Ledger.Governed[w.namespace+"/agent"].Settled == "" {
			err = fmt.Errorf("no revision is on record: %+v", state.Ledger.Governed)
		}
		return err
	})
}

// The cure may be refused, too. The last good commit stays in force meanwhile, and so
// does what it says of going back.
func TestReversalGoesOnWhileTheNextCommitIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	with := func(version, tag string, more ...string) map[string]string {
		files := map[string]string{
			"agent.yaml": daemonSet(version, tag), "a.yaml": configMap("a", version),
			"rules.yaml": rules{maxUnavailable: "2", readyTimeout: 20 * time.Second, fields: "  onFailure: Revert\n"}.yaml(w),
		}
		for _, text := range more {
			files["more.yaml"] = text
		}
		return w.fleet(files)
	}
	w.commit(t, "version 1", with("1", "v1"))
	w.settled(t, "1")
	w.allSettled(t)
	bad := w.commit(t, "a bad build", with("2", "never-ready"))
	w.inForce(t, bad)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=agent"})
		if err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations[versionKey] == "2" }) {
			err = errors.New("no node has the bad version yet")
		}
		return err
	})
	refused := w.commit(t, "a cure that is refused", with("3", "v3", invalid))
	if problem := w.refused(t, refused); !strings.Contains(problem, "invalid") {
		t.Errorf("problem: %q", problem)
	}
	w.settled(t, "1")
	state := w.stateNow(t)
	if state.Record.Commit.Hash != bad || len(state.Ledger.Reversals) != 1 || !strings.HasPrefix(bad, state.Ledger.Reversals[0].Commit) {
		t.Errorf("in force is %.7s, and reverted %+v; want %.7s and it", state.Record.Commit.Hash, state.Ledger.Reversals, bad)
	}
	if got := w.configMap(t, "a").Data["key"]; got != "2" {
		t.Errorf("ConfigMap a says %q, want what the commit in force says", got)
	}
	if broken := w.countByNode(t); len(broken) != 1 {
		t.Errorf("pods were deleted on %v, want one node", broken)
	}
	w.inForce(t, w.commit(t, "the cure", with("3", "v3")))
	w.settled(t, "3")
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if marks := state.Ledger.Reversals; err == nil && len(marks) > 0 {
			err = fmt.Errorf("still marked: %+v", marks)
		}
		return err
	})
}
