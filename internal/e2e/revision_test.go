// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
)

// A control plane that is upgraded may write the same template down as another
// revision. The DaemonSet controller goes on to count its pods as up to date, and so
// do we: no node is visited until Git has another template.
func TestTemplateThatGetsAnotherRevisionRestartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1"), "rules.yaml": rules{maxUnavailable: "4"}.yaml(w)}))
	w.settled(t, "1")
	before := w.revisions(t)

	// As if the template had another digest.
	_, err := w.Client.AppsV1().DaemonSets(w.namespace).Patch(t.Context(), "agent", types.MergePatchType, []byte(`{"status":{"collisionCount":1}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.AppsV1().ControllerRevisions(w.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		now := w.revisions(t)
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		if seen := state.Ledger.Governed[w.namespace+"/agent"].Revision; len(now) != 1 || now[0] == before[0] || seen != now[0] {
			return fmt.Errorf("revisions are %v and were %v, the agent knows %s", now, before, seen)
		}
		return nil
	})
	if s := w.rested(t).Status; s.UpdatedNumberScheduled != nodes {
		t.Errorf("the DaemonSet controller counts %d nodes as up to date, want %d", s.UpdatedNumberScheduled, nodes)
	}
	w.polled(t, 2)
	if touched := w.countByNode(t); len(touched) != 0 {
		t.Errorf("pods were deleted on %v, want on none", touched)
	}

	w.commit(t, "version 2", map[string]string{"agent.yaml": daemonSet("2", "v2")})
	w.settled(t, "2")
	w.onceEach(t)
}

// revisions are the hashes that the API server keeps of the DaemonSet.
func (w *world) revisions(t *testing.T) []string {
	t.Helper()
	list, err := w.Client.AppsV1().ControllerRevisions(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var hashes []string
	for _, r := range list.Items {
		hashes = append(hashes, r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey])
	}
	return hashes
}
