// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// invalid is refused by the API server, and by nobody before.
const invalid = "apiVersion: v1\nkind: Service\nmetadata: {name: invalid}\nspec: {ports: [{port: 70000}]}\n"

// One bad object, and the commit changes nothing: no other object, no policy,
// no node. What was in force stays so, and is defended.
func TestCommitWithABadObjectChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	good := w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
		"rules.yaml": rules{}.yaml(w),
	})
	first := w.commit(t, "good", good)
	w.settled(t, "1")
	w.inForce(t, first)
	before := w.daemonSetNow(t, "agent")

	bad := w.commit(t, "bad", w.fleet(map[string]string{
		"agent.yaml": daemonSet("2", "v1"), "a.yaml": configMap("a", "2"), "c.yaml": configMap("c", "1"), "d.yaml": configMap("d", "1"),
		"invalid.yaml": invalid, "rules.yaml": rules{maxUnavailable: "4"}.yaml(w),
	}))
	problem := w.refused(t, bad)
	if want := "Service/" + w.namespace + "/invalid: "; !strings.Contains(problem, want) {
		t.Errorf("problem %q does not name %q", problem, want)
	}
	w.drifts(t, "c")
	w.polled(t, 2)

	if got := w.configMap(t, "a").Data["key"]; got != "1" {
		t.Errorf("ConfigMap a: got %q, want what the good commit says", got)
	}
	w.configMap(t, "b") // it is not pruned either
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "d", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap d of the bad commit: %v, want that it does not exist", err)
	}
	if now := w.daemonSetNow(t, "agent"); now.Generation != before.Generation {
		t.Error("the DaemonSet was changed by the bad commit")
	}
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted: %v", given)
	}
	state := w.stateNow(t)
	if state.Record.Commit.Hash != first {
		t.Errorf("commit %.7s is on record as in force, want %.7s", state.Record.Commit.Hash, first)
	}
	for _, d := range state.Record.Documents {
		if spec, ok := d.Object["spec"].(map[string]any); ok && fmt.Sprint(spec["maxUnavailable"]) == "4" {
			t.Error("the policies of the bad commit are in force")
		}
	}

	mended := w.fleet(map[string]string{
		"agent.yaml": daemonSet("2", "v1"), "a.yaml": configMap("a", "2"), "c.yaml": configMap("c", "1"), "d.yaml": configMap("d", "1"),
		"rules.yaml": rules{maxUnavailable: "4"}.yaml(w),
	})
	w.inForce(t, w.commit(t, "mended", mended))
	w.settled(t, "2")
	w.owns(t, w.in("ConfigMap", "a"), w.in("ConfigMap", "c"), w.in("ConfigMap", "d"), w.in("DaemonSet", "agent"))
}

// With --partial a bad object keeps nothing but itself out.
func TestPartialAppliesTheRestOfACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t, func(c *agent.Config) { c.Partial = true })
	hash := w.commit(t, "bad", w.fleet(map[string]string{"a.yaml": configMap("a", "1"), "invalid.yaml": invalid}))
	w.inForce(t, hash)
	w.noteOn(t, w.in("Service", "invalid"), inventory.Failing)
	if got := w.configMap(t, "a").Data["key"]; got != "1" {
		t.Errorf("ConfigMap a: got %q, want what Git says", got)
	}
}

// refused waits until a commit is not in force because of an object, and
// answers why.
func (w *world) refused(t *testing.T, hash string) (problem string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		problem = state.Record.Problem
		if !strings.HasPrefix(problem, fmt.Sprintf("commit %.7s not applied: ", hash)) {
			return fmt.Errorf("problem: %q, want that %.7s is not applied", problem, hash)
		}
		return nil
	})
	return problem
}

// drifts edits a ConfigMap and waits until that is undone.
func (w *world) drifts(t *testing.T, name string) {
	t.Helper()
	edited, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"key":"edited"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cm.Data["key"] == edited.Data["key"] {
			return fmt.Errorf("ConfigMap %s is still as somebody left it", name)
		}
		return nil
	})
}
