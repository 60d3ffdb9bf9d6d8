// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/rollout"
)

// world is what one test has for itself: a namespace, an instance that keeps
// its state in it, and a fleet repository whose objects go there.
type world struct {
	*testkit.Cluster
	namespace string
	instance  inventory.Instance
	git       *testkit.GitServer
	repo      *testkit.GitRepo
	pods      *testkit.PodRecord
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Cluster: testkit.Sandbox(t), git: testkit.StartGit(t, testkit.GitOptions{})}
	w.namespace = w.Namespace(t)
	// The namespace ends in random letters, which no other test's has.
	w.instance = inventory.Instance{Namespace: w.namespace, Name: "lamp-" + w.namespace[len(w.namespace)-5:]}
	w.repo = w.git.Repo(t, "fleet")
	w.pods = w.RecordPods(t, w.namespace, "")
	return w
}

// commit writes files into the fleet repository, on top of what is there.
func (w *world) commit(t testing.TB, message string, files map[string]string) string {
	t.Helper()
	return w.repo.Commit(t, "main", message, files)
}

// fleet is a whole kustomize root: the given files, and a kustomization that
// lists them.
func (w *world) fleet(files map[string]string) map[string]string {
	all := maps.Clone(files)
	all["kustomization.yaml"] = w.kustomization(slices.Sorted(maps.Keys(files)), "")
	return all
}

// state is what the instance remembers.
func (w *world) state(ctx context.Context) (reconcile.State, error) {
	return agent.NewStore(w.Client, w.instance).Load(ctx)
}

func (w *world) stateNow(t testing.TB) reconcile.State {
	t.Helper()
	state, err := w.state(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// inForce waits until a commit is the one in force, and nothing is wrong.
func (w *world) inForce(t testing.TB, hash string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		if r := state.Record; r.Commit.Hash != hash || r.Problem != "" {
			return fmt.Errorf("commit %.7s is in force, not %.7s; problem: %q", r.Commit.Hash, hash, r.Problem)
		}
		return nil
	})
}

// noteOn waits until the record holds a note on an object for a reason.
func (w *world) noteOn(t testing.TB, object string, reason inventory.Reason) reconcile.ObjectNote {
	t.Helper()
	var found reconcile.ObjectNote
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		for _, n := range state.Record.Objects {
			if n.Object == object && n.Reason == string(reason) {
				found = n
				return nil
			}
		}
		return fmt.Errorf("no note on %s for %s, only %+v", object, reason, state.Record.Objects)
	})
	return found
}

// settled waits until every node has a Ready pod of a version, and the ledger
// says that nothing is under way.
func (w *world) settled(t testing.TB, version string) {
	t.Helper()
	w.settledOn(t, versionKey, version)
}

// settledOn is settled for pods that carry an annotation.
func (w *world) settledOn(t testing.TB, annotation, value string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=agent"})
		if err != nil {
			return err
		}
		done := 0
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && p.Annotations[annotation] == value && isReady(p) {
				done++
			}
		}
		if done != nodes || len(pods.Items) != nodes {
			state, err := w.state(ctx)
			return errors.Join(err, fmt.Errorf("of %d pods %d have %s: %s and are ready, not %d; problem: %q",
				len(pods.Items), done, annotation, value, nodes, state.Record.Problem))
		}
		return w.idle(ctx)
	})
}

// goesOn waits until an opening that is still to come has seen a visit from start to end.
func (w *world) goesOn(t testing.TB, opening span) {
	t.Helper()
	testkit.Eventually(t, time.Until(opening.from)+patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err == nil && !slices.ContainsFunc(state.Ledger.Finished, func(v rollout.Visit) bool { return opening.has(v.Started) }) {
			err = fmt.Errorf("no visit of %s is finished", opening)
		}
		return err
	})
}

// idle says what is under way according to the ledger.
func (w *world) idle(ctx context.Context) error {
	state, err := w.state(ctx)
	if err != nil {
		return err
	}
	if n := len(state.Ledger.Visits); n > 0 {
		return fmt.Errorf("%d visits are open", n)
	}
	if _, known := state.Ledger.Governed[w.namespace+"/agent"]; !known {
		return errors.New("the ledger does not know the DaemonSet yet")
	}
	return nil
}

func isReady(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *world) daemonSetNow(t testing.TB, name string) *appsv1.DaemonSet {
	t.Helper()
	d, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// rested waits until the DaemonSet's controller has written all it has to say,
// and returns the DaemonSet.
func (w *world) rested(t testing.TB) *appsv1.DaemonSet {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		d, err := w.Client.AppsV1().DaemonSets(w.namespace).Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.NumberAvailable != nodes || s.UpdatedNumberScheduled != nodes {
			return fmt.Errorf("status of generation %d: %+v", d.Generation, s)
		}
		return nil
	})
	return w.daemonSetNow(t, "agent")
}

// polled waits until the agent has asked the remote n more times.
func (w *world) polled(t testing.TB, n int) {
	t.Helper()
	before := w.git.Requests().Refs
	testkit.Eventually(t, patience, func(context.Context) error {
		if asked := w.git.Requests().Refs - before; asked < n {
			return fmt.Errorf("the remote was asked %d times, not %d", asked, n)
		}
		return nil
	})
}

// visited are the nodes of the finished visits.
func visited(l rollout.Ledger) []string {
	var names []string
	for _, v := range l.Finished {
		names = append(names, v.Node)
	}
	slices.Sort(names)
	return names
}
